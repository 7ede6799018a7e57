"""Engine overhead: CPU time of a local federated run relative to a plain loop of the same work.

Both train FedStar on `single` for the same rounds on the same batches, and evaluate every client on
the same validation and test batches each round, in one process and one thread. The federated run
also saves every client's state to disk with a hash, checks and merges replies, and writes the run
folder. The ratio to a loop that only trains is printed as well.

    RAMET_DATA=DIR python benchmarks/engine_overhead.py [ROUNDS] [TRIALS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from pathlib import Path

import torch

from ramet.engine.processes.local import LocalWire
from ramet.engine.start import start_model
from ramet.experiment import Experiment, RunFolder, RunSettings, checked_settings, default_data
from ramet.randomness import Randomness
from ramet.training.local import LocalTraining


def bare(experiment: Experiment) -> tuple[float, float]:
    """Train and evaluate every client in every round; return the CPU seconds of each."""
    method, seed = experiment.method, experiment.settings.seed
    assert isinstance(method.training, LocalTraining)
    sites = []
    for client in experiment.clients:
        samples = experiment.samples(client)
        model = start_model(method, method.task.shape(samples), seed, client)
        sites.append((client, samples, model, method.training.optimiser(model)))
    training = evaluating = 0.0
    for number in range(1, experiment.settings.rounds + 1):
        for client, samples, model, optimiser in sites:
            start = time.process_time()
            model.train()
            order = Randomness(seed, client, number).generator("order of epoch 0")
            for batch in method.task.batches(samples, method.training.batch_size, order):
                loss = method.task.loss(method.task.output(model, batch), batch)
                optimiser.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
            trained = time.process_time()
            method.task.evaluate(model, samples, torch.device("cpu"))
            training += trained - start
            evaluating += time.process_time() - trained
    return training, evaluating


def federated(settings: RunSettings) -> float:
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", Experiment(settings))
        experiment = run.experiment()
        for client in experiment.clients:
            experiment.samples(client)
        wire = LocalWire(lambda client: experiment.client(client, run.clients))
        start = time.process_time()
        run.execute(wire, lambda _: None)
        return time.process_time() - start


def main() -> None:
    torch.set_num_threads(1)
    rounds, trials = (int(given) for given in (sys.argv[1:] + ["10", "5"][len(sys.argv) - 1 :]))
    settings = checked_settings(
        method="fedstar", setting="single", rounds=rounds, seed=1, data=default_data()
    )
    experiment = Experiment(settings)
    bare(experiment)
    plain, same, whole = [], [], []
    for trial in range(trials):
        training, evaluating = bare(experiment)
        plain.append(training)
        same.append(training + evaluating)
        whole.append(federated(settings))
        print(
            f"trial {trial + 1}: plain loop {training:.2f} s training and {evaluating:.2f} s "
            f"evaluation, federated {whole[-1]:.2f} s (CPU time)"
        )
    print(f"all trials, relative to training alone: ratio {sum(whole) / sum(plain):.3f}")
    print(f"all trials, relative to training and evaluation: ratio {sum(whole) / sum(same):.3f}")


if __name__ == "__main__":
    main()
