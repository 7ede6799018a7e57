"""Link prediction: CPU time of evaluating a client, relative to training it for a round.

Both are what a client does in a round of `fed-hgn`: one epoch of training, and the scores of the
validation and test pairs. One process and one thread, in turns, all clients of the setting. Prints
the ratio last.

    RAMET_DATA=DIR python benchmarks/link_evaluation.py [TRIALS] [SETTING]    default: 5 acm-hetero
"""

from __future__ import annotations

import torch
from harness import CPU, Clock, given, print_ratio, settings, sites

from ramet.experiment import Experiment
from ramet.randomness import Randomness
from ramet.training.local import Session


def main() -> None:
    torch.set_num_threads(1)
    torch.set_flush_denormal(True)
    experiment = Experiment(settings("fed-hgn", given(2, "acm-hetero")))
    clients, training = sites(experiment), experiment.method.training

    def trial(number: int) -> tuple[float, float]:
        evaluated, trained = Clock(), Clock()
        for site in clients:
            draws = Randomness(experiment.settings.seed, site.client, number)
            session = Session(
                site.model, site.optimiser, training, site.task, site.samples, (), draws, CPU
            )
            with evaluated.running():
                site.task.evaluate(site.model, site.samples, CPU)
            with trained.running():
                training.fit(session)
        return evaluated.seconds, trained.seconds

    print_ratio(given(1, 5), trial, "evaluation", f"training of {len(clients)} clients")


if __name__ == "__main__":
    main()
