"""Overhead of the engine: CPU time of federated FedStar on `single` over that of a plain loop.

Both train the same networks for the same rounds on the same batches, and evaluate every client on
the same validation and test batches each round, in one process and one thread. The federated run
also saves every client's state to disk with a hash, checks and merges replies, and writes the run
folder. The seconds of the plain loop that only trains are printed as well.

    RAMET_DATA=DIR python benchmarks/engine_overhead.py [ROUNDS] [TRIALS]
"""

from __future__ import annotations

import tempfile
from pathlib import Path

import torch
from harness import CPU, Clock, given, print_ratio, settings, sites

from ramet.engine.processes.local import LocalWire
from ramet.engine.start import start_model
from ramet.experiment import Experiment, RunFolder, RunSettings
from ramet.experiment.client_side import client_of
from ramet.experiment.executing import execute
from ramet.randomness import Randomness
from ramet.training.local import LocalTraining


def bare(experiment: Experiment) -> float:
    """Train and evaluate every client in every round."""
    method, seed = experiment.method, experiment.settings.seed
    assert isinstance(method.training, LocalTraining)
    clients = sites(experiment, lambda shape, client: start_model(method, shape, seed, client))
    training, evaluating = Clock(), Clock()
    for number in range(1, experiment.settings.rounds + 1):
        for site in clients:
            order = Randomness(seed, site.client, number).generator("order of epoch 0")
            with training.running():
                site.model.train()
                for batch in site.task.batches(site.samples, method.training.batch_size, order):
                    site.step(batch)
            with evaluating.running():
                site.task.evaluate(site.model, site.samples, CPU)
    print(f"plain loop: {training.seconds:.2f} s of training alone")
    return training.seconds + evaluating.seconds


def federated(chosen: RunSettings) -> float:
    clock = Clock()
    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", Experiment(chosen))
        experiment = run.experiment()
        for client in experiment.clients:
            experiment.samples(client)
        wire = LocalWire(lambda client: client_of(experiment, client, run.clients))
        with clock.running():
            execute(run, wire, lambda _: None)
    return clock.seconds


def main() -> None:
    torch.set_num_threads(1)
    chosen = settings("fedstar", "single", rounds=given(1, 10))
    experiment = Experiment(chosen)
    print_ratio(
        given(2, 5), lambda _: (federated(chosen), bare(experiment)), "federated", "plain loop"
    )


if __name__ == "__main__":
    main()
