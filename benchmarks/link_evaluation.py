"""Link prediction: CPU time of evaluating a client, relative to training it for a round.

Both are what a client does in a round of `fed-hgn`: one epoch of training, and the scores of the
validation and test pairs. One process and one thread, in turns, all clients of the setting. Prints
the ratio last.

    RAMET_DATA=DIR python benchmarks/link_evaluation.py [TRIALS] [SETTING]    default: 5 acm-hetero
"""

from __future__ import annotations

import sys
import time
from statistics import median

import torch

from ramet.experiment import Experiment, checked_settings, default_data
from ramet.randomness import Randomness
from ramet.training.local import Session

CPU = torch.device("cpu")


def main() -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    trials = int(sys.argv[1]) if len(sys.argv) > 1 else 5
    setting = sys.argv[2] if len(sys.argv) > 2 else "acm-hetero"
    settings = checked_settings(method="fed-hgn", setting=setting, data=default_data(), seed=1)
    experiment = Experiment(settings)
    method = experiment.method
    clients = []
    for client in experiment.clients:
        samples = experiment.samples(client)
        model = method.model(method.task.shape(samples))
        clients.append((client, samples, model, method.training.optimiser(model)))
    ratios = []
    for trial in range(trials + 1):
        trained = evaluated = 0.0
        for client, samples, model, optimiser in clients:
            draws = Randomness(settings.seed, client, trial)
            session = Session(
                model, optimiser, method.training, method.task, samples, (), draws, CPU
            )
            start = time.process_time()
            method.task.evaluate(model, samples, CPU)
            middle = time.process_time()
            method.training.fit(session)
            trained += time.process_time() - middle
            evaluated += middle - start
        if not trial:
            continue  # a warm-up
        ratios.append(evaluated / trained)
        print(
            f"trial {trial}: evaluation {1000 * evaluated:.0f} ms, training {1000 * trained:.0f} "
            f"ms (CPU time, {len(clients)} clients): ratio {ratios[-1]:.3f}"
        )
    print(f"median of all trials: ratio {median(ratios):.3f}")


if __name__ == "__main__":
    main()
