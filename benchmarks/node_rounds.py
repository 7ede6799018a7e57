"""Node classification: CPU time of a round of FedAvg on Cora with ten clients, beside a plain loop.

The plain loop does the same work in PyG: for each client it loads the mean, evaluates validation
and test nodes and trains for the same epochs with Adam; the parameters are averaged in memory.
Ramet's round also checks replies, merges them exactly, saves the state of each client to disk and
writes the run folder. One process and one thread, in turns. Prints a ratio for GraphSAGE and one
for GCN, and last the larger one.

    RAMET_DATA=DIR python benchmarks/node_rounds.py [ROUNDS] [TRIALS]
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCNConv, SAGEConv

from ramet.experiment import Experiment, RunFolder, RunSettings, checked_settings, default_data
from ramet.experiment.local_engine import local_wire
from ramet.experiment.named import NamedParts
from ramet.methods.training import LocalTraining
from ramet.metrics import Record
from ramet.tasks import NodeSamples


class PlainSAGE(nn.Module):
    """FedSage's GraphSAGE in plain PyG."""

    def __init__(self, features: int, hidden: int, layers: int, classes: int) -> None:
        super().__init__()
        widths = [features, *[hidden] * (layers - 1)]
        self.layers = nn.ModuleList(SAGEConv(width, hidden) for width in widths)
        self.classify = nn.Linear(hidden, classes)

    def forward(self, x: Tensor, links: Tensor, dropout: float) -> Tensor:
        for layer in self.layers:
            x = functional.dropout(layer(x, links).relu(), dropout, self.training)
        logits: Tensor = self.classify(x)
        return logits


class PlainGCN(nn.Module):
    """A graph convolutional network in plain PyG."""

    def __init__(self, features: int, hidden: int, layers: int, classes: int) -> None:
        super().__init__()
        widths = [features, *[hidden] * (layers - 1), classes]
        self.layers = nn.ModuleList(GCNConv(width, out) for width, out in pairwise(widths))

    def forward(self, x: Tensor, links: Tensor, dropout: float) -> Tensor:
        for layer in self.layers[:-1]:
            x = functional.dropout(layer(x, links).relu(), dropout, self.training)
        logits: Tensor = self.layers[-1](x, links)
        return logits


NETWORKS: dict[str, Callable[[int, int, int, int], nn.Module]] = {
    "sage": PlainSAGE,
    "gcn": PlainGCN,
}


def plain(experiment: Experiment, network: str) -> float:
    """CPU-seconds of a round of a plain loop."""
    method, rounds = experiment.method, experiment.settings.rounds
    training = method.training
    assert isinstance(training, LocalTraining)
    named = NamedParts.of(experiment.settings).defaults()
    hidden, layers, dropout = (named[name] for name in ("hidden", "layers", "dropout"))
    sites: list[tuple[NodeSamples, nn.Module, Any]] = []
    for client in experiment.clients:
        samples = experiment.samples(client)
        shape = method.task.shape(samples)
        model = NETWORKS[network](shape.features, hidden, layers, shape.classes)
        adam = torch.optim.Adam(model.parameters(), training.lr, weight_decay=training.weight_decay)
        sites.append((samples, model, adam))
    total = sum(samples.graph.nodes for samples, _, _ in sites)
    mean = {name: value.clone() for name, value in sites[0][1].state_dict().items()}
    for _ in range(2):  # the first time is a warm-up
        start = time.process_time()
        for _ in range(rounds):
            added = {name: torch.zeros_like(value) for name, value in mean.items()}
            for samples, model, optimiser in sites:
                model.load_state_dict(mean)
                _train_and_evaluate(samples, model, optimiser, training.epochs, dropout)
                for name, value in model.state_dict().items():
                    added[name] += value * (samples.graph.nodes / total)
            mean = added
        seconds = time.process_time() - start
    return seconds / rounds


def _train_and_evaluate(
    samples: NodeSamples, model: nn.Module, optimiser: Any, epochs: int, dropout: float
) -> None:
    graph, held_out = samples.graph, samples.evaluated_on or samples.graph
    model.eval()
    with torch.inference_mode():
        predicted = model(held_out.x, held_out.edge_index, dropout).argmax(1)
        for nodes in (samples.split.val, samples.split.test):
            (predicted[nodes] == held_out.labels[nodes]).float().mean()
    model.train()
    for _ in range(epochs):
        logits = model(graph.x, graph.edge_index, dropout)[samples.split.train]
        loss = functional.cross_entropy(logits, graph.labels[samples.split.train])
        optimiser.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]
        optimiser.step()


def federated(settings: RunSettings) -> float:
    """CPU-seconds of a round of Ramet, from the first record to the last."""
    ends: list[float] = []

    def observe(record: Record) -> None:  # noqa: ARG001
        ends.append(time.process_time())

    with tempfile.TemporaryDirectory() as folder:
        run = RunFolder.create(Path(folder) / "run", settings)
        run.execute(local_wire(run), observe)
    return (ends[-2] - ends[0]) / (len(ends) - 2)  # the last one is the closing message


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    given = [int(text) for text in sys.argv[1:]]
    rounds, trials = given + [10, 3][len(given) :]
    ratios = []
    for network in NETWORKS:
        settings = checked_settings(
            method="fedavg",
            setting="cora",
            network=network,
            options={"clients": "10"},
            rounds=rounds,
            seed=1,
            data=default_data(),
        )
        experiment = Experiment(settings)
        theirs, ours = [], []
        for trial in range(1, trials + 1):
            theirs.append(plain(experiment, network))
            ours.append(federated(settings))
            print(
                f"{network}, trial {trial}: plain loop {1000 * theirs[-1]:.0f} ms per round, Ramet "
                f"{1000 * ours[-1]:.0f} ms (CPU time)"
            )
        ratios.append(median(ours) / median(theirs))
        print(f"{network}: ratio {ratios[-1]:.3f}")
    print(f"larger of both: ratio {max(ratios):.3f}")


if __name__ == "__main__":
    main()
