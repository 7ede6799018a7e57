"""The cost of training with differential privacy per graph: python benchmarks/graph_gradients.py

Prints CPU-seconds of an epoch of FedDense's network on NCI1 (RAMET_DATA), plain, with gradients of
single graphs in one pass, and for a part of the graphs one by one; last the ratio of one pass to
plain.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import torch

from ramet.data import stratified
from ramet.data.sources.graph_sets import read_block
from ramet.engine.start import start_model
from ramet.experiment import default_data
from ramet.methods import feddense
from ramet.privacy.accounting import Mechanism
from ramet.privacy.draws import SeededDraws
from ramet.randomness import Randomness
from ramet.rules.method import assembled
from ramet.tasks import GraphClassification, GraphSamples
from ramet.training.graph_gradients import in_one_pass, one_by_one
from ramet.training.local import LocalTraining, Session
from ramet.training.private import fit_privately, training_steps

REPEATS = 5
BATCHES = 2


def seconds(work: Callable[[], object]) -> float:
    """The least CPU time of several repetitions."""
    times = []
    for _ in range(REPEATS):
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return min(times)


def main() -> None:
    torch.set_num_threads(1)
    method = assembled(feddense())
    block = read_block("tu:NCI1", method.inputs, Path(default_data()))
    samples = GraphSamples(block, stratified(block.labels, 123))
    task, training = GraphClassification(), LocalTraining()
    model = start_model(method, task.shape(samples), 1, "")
    session = Session(
        model=model,
        optimiser=training.optimiser(model),
        training=training,
        task=task,
        samples=samples,
        shared=(),
        randomness=Randomness(1, "", 1),
        device=torch.device("cpu"),
    )
    sampling, steps = training_steps(training, samples)
    draws = SeededDraws(torch.Generator().manual_seed(1))
    mechanism = Mechanism(1.0, sampling, steps)
    training.fit(session)
    plain = seconds(lambda: training.fit(session))
    private = seconds(lambda: fit_privately(session, mechanism, 1.0, draws))
    graphs = samples.split.train[: BATCHES * training.batch_size]
    fast = seconds(lambda: in_one_pass(model, task, samples, graphs, 1.0))
    slow = seconds(lambda: one_by_one(model, task, samples, graphs, 1.0))
    print(f"an epoch, plain: {plain:.2f} s; with differential privacy: {private:.2f} s")
    print(f"{len(graphs)} graphs in one pass: {fast:.2f} s; one by one: {slow:.2f} s")
    print(f"ratio of an epoch with differential privacy to a plain one: {private / plain:.2f}")


if __name__ == "__main__":
    main()
