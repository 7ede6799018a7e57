"""Node classification: CPU time of a round of FedAvg on Cora with ten clients, beside others.

Beside a plain loop in PyG: for each client it loads the mean, evaluates validation and test nodes
and trains for the same epochs with Adam; the parameters are averaged in memory. If a checkout of
OpenFGL is named, beside its trainer instead, which is given the same clients, splits and sizes.
Ramet's round also checks replies, merges them exactly, writes the run folder and, every few
seconds, the state of each client to disk. One process and one thread, in turns. Prints a ratio for
GraphSAGE and one for GCN, and last the larger one.

    RAMET_DATA=DIR python benchmarks/node_rounds.py [--rounds 10] [--trials 3] [--epochs 1] [PATH]

PATH is a checkout of OpenFGL (github.com/xkLi-Allen/OpenFGL), which needs munkres.
"""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import pickle
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import median
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Data
from torch_geometric.nn import GCNConv, SAGEConv

from ramet.experiment import Experiment, RunFolder, RunSettings, checked_settings, default_data
from ramet.experiment.executing import execute
from ramet.experiment.local_engine import local_engine
from ramet.experiment.named import NamedParts
from ramet.metrics import Record
from ramet.tasks import NodeSamples
from ramet.training.local import LocalTraining

CLIENTS = 10
LAYERS: dict[str, Callable[[int, int], nn.Module]] = {"sage": SAGEConv, "gcn": GCNConv}
OPENFGL_NAMES = {"sage": "graphsage", "gcn": "gcn"}


class Plain(nn.Module):
    """Layers of PyG with relu and dropout between them."""

    def __init__(self, layer: Callable[[int, int], nn.Module], widths: Sequence[int]) -> None:
        super().__init__()
        self.layers = nn.ModuleList(layer(*pair) for pair in pairwise(widths))

    def forward(self, x: Tensor, links: Tensor, dropout: float) -> Tensor:
        for layer in self.layers[:-1]:
            x = functional.dropout(layer(x, links).relu(), dropout, self.training)
        logits: Tensor = self.layers[-1](x, links)
        return logits


class PlainLoop:
    """Rounds of FedAvg in plain PyG."""

    def __init__(self, experiment: Experiment, network: str) -> None:
        method, named = experiment.method, NamedParts.of(experiment.settings).defaults()
        assert isinstance(method.training, LocalTraining)
        self.training, self.dropout = method.training, named["dropout"]
        self.sites: list[tuple[NodeSamples, nn.Module, torch.optim.Optimizer]] = []
        for client in experiment.clients:
            samples = experiment.samples(client)
            shape = method.task.shape(samples)
            inner = [named["hidden"]] * (named["layers"] - 1)
            model = Plain(LAYERS[network], [shape.features, *inner, shape.classes])
            adam = torch.optim.Adam(
                model.parameters(), self.training.lr, weight_decay=self.training.weight_decay
            )
            self.sites.append((samples, model, adam))
        self.total = sum(samples.graph.nodes for samples, _, _ in self.sites)
        self.mean = {name: value.clone() for name, value in self.sites[0][1].state_dict().items()}

    def seconds(self, rounds: int) -> float:
        """CPU-seconds of a round."""
        start = time.process_time()
        for _ in range(rounds):
            added = {name: torch.zeros_like(value) for name, value in self.mean.items()}
            for samples, model, optimiser in self.sites:
                model.load_state_dict(self.mean)
                self._evaluate(samples, model)
                self._train(samples, model, optimiser)
                for name, value in model.state_dict().items():
                    added[name] += value * (samples.graph.nodes / self.total)
            self.mean = added
        return (time.process_time() - start) / rounds

    @torch.no_grad()
    def _evaluate(self, samples: NodeSamples, model: nn.Module) -> list[float]:
        graph = samples.graph_of("test")
        predicted = model.eval()(graph.x, graph.edge_index, self.dropout).argmax(1)
        correct = predicted == graph.labels
        return [
            float(correct[part].float().mean()) for part in (samples.split.val, samples.split.test)
        ]

    def _train(self, samples: NodeSamples, model: nn.Module, optimiser: Any) -> None:
        graph, train = samples.graph, samples.split.train
        model.train()
        for _ in range(self.training.epochs):
            logits = model(graph.x, graph.edge_index, self.dropout)[train]
            loss = functional.cross_entropy(logits, graph.labels[train])
            optimiser.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimiser.step()


class OpenFGL:
    """Rounds of a method in OpenFGL's trainer."""

    def __init__(
        self, experiment: Experiment, network: str, folder: Path, method: str = "fedavg"
    ) -> None:
        arguments, sys.argv = sys.argv, sys.argv[:1]  # it reads the command line when imported
        args = importlib.import_module("openfgl.config").args
        sys.argv = arguments
        trainer = importlib.import_module("openfgl.flcore.trainer")
        tools = importlib.import_module("openfgl.utils.basic_utils")
        training, named = experiment.method.training, NamedParts.of(experiment.settings).defaults()
        assert isinstance(training, LocalTraining)
        args.use_cuda, args.dataset, args.num_clients = False, ["Cora"], CLIENTS
        args.fl_algorithm = method
        args.model, args.metrics = [OPENFGL_NAMES[network]], ["accuracy"]
        args.num_epochs, args.lr = training.epochs, training.lr
        args.weight_decay, args.dropout = training.weight_decay, named["dropout"]
        args.num_layers, args.hid_dim = named["layers"], named["hidden"]
        clients = [experiment.samples(client) for client in experiment.clients]
        for number, samples in enumerate(clients):
            _write_split(folder, number, samples)
        pool: dict[str, Any] = {}
        cpu = torch.device("cpu")
        made = trainer.FGLTrainer.__new__(
            trainer.FGLTrainer
        )  # its __init__ would cut its own clients
        made.args, made.message_pool, made.device = args, pool, cpu
        made.clients = [
            tools.load_client(args, number, _as_data(samples), str(folder), pool, cpu)
            for number, samples in enumerate(clients)
        ]
        made.server = tools.load_server(args, _as_data(clients[0]), str(folder), pool, cpu)
        if training.algorithm == "sgd":
            for client in made.clients:
                client.task.optim = torch.optim.SGD(
                    client.task.model.parameters(), args.lr, weight_decay=args.weight_decay
                )
        made.evaluation_result = {"best_round": 0, "best_val_accuracy": 0, "best_test_accuracy": 0}
        made.logger = trainer.Logger(args, pool, str(folder), made.server.personalized)
        self.trainer = made

    def seconds(self, rounds: int) -> float:
        """CPU-seconds of a round."""
        self.trainer.args.num_rounds = rounds
        with contextlib.redirect_stdout(io.StringIO()):
            start = time.process_time()
            self.trainer.train()
            return (time.process_time() - start) / rounds


def _as_data(samples: NodeSamples) -> Data:
    graph = samples.graph
    nodes = list(range(graph.nodes))
    return Data(
        x=graph.x, edge_index=graph.edge_index, y=graph.labels,
        num_global_classes=graph.classes, global_map=dict(zip(nodes, nodes, strict=True)),
    )  # fmt: skip


def _write_split(folder: Path, number: int, samples: NodeSamples) -> None:
    """Write a client's split as OpenFGL stores it, without the numbers in the whole graph."""
    target = folder / "node_cls" / "default_split"
    target.mkdir(parents=True, exist_ok=True)
    split = {"train": samples.split.train, "val": samples.split.val, "test": samples.split.test}
    for part, nodes in split.items():
        mask = torch.zeros(samples.graph.nodes, dtype=torch.bool)
        mask[nodes] = True
        torch.save(mask, target / f"{part}_{number}.pt")
        (target / f"glb_{part}_{number}.pkl").write_bytes(pickle.dumps([]))


def federated(settings: RunSettings) -> float:
    """CPU-seconds of a round of Ramet."""
    with tempfile.TemporaryDirectory() as folder:
        return executed(RunFolder.create(Path(folder) / "run", Experiment(settings)))


def executed(run: RunFolder) -> float:
    """Execute a run, and return the CPU-seconds of a round, from the second to the last."""
    ends: list[float] = []

    def observe(record: Record) -> None:  # noqa: ARG001
        ends.append(time.process_time())

    with local_engine(run, workers=1) as wire:
        execute(run, wire, observe, wire.write)
    return (ends[-2] - ends[0]) / (len(ends) - 2)  # the last record follows the closing message


def ratio_of(network: str, given: argparse.Namespace, folder: Path) -> float:
    settings = checked_settings(
        method="fedavg",
        setting="cora",
        network=network,
        options={"clients": str(CLIENTS), "epochs": str(given.epochs)},
        rounds=given.rounds,
        seed=1,
        data=default_data(),
    )
    experiment = Experiment(settings)
    other: PlainLoop | OpenFGL
    if given.openfgl is None:
        name, other = "plain loop", PlainLoop(experiment, network)
    else:
        name, other = "OpenFGL", OpenFGL(experiment, network, folder)
    other.seconds(2)  # a warm-up
    theirs, ours = [], []
    for trial in range(1, given.trials + 1):
        theirs.append(other.seconds(given.rounds))
        ours.append(federated(settings))
        print(
            f"{network}, trial {trial}: {name} {1000 * theirs[-1]:.1f} ms per round, Ramet "
            f"{1000 * ours[-1]:.1f} ms (CPU time)"
        )
    ratio = median(ours) / median(theirs)
    print(f"{network}, {given.epochs} epochs per round: ratio {ratio:.3f} of {name}")
    return ratio


def main() -> None:
    torch.set_num_threads(1)
    torch.manual_seed(1)
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--trials", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("openfgl", nargs="?", type=Path, help="a checkout of OpenFGL")
    given = parser.parse_args()
    if given.openfgl is not None:
        sys.path.insert(0, str(given.openfgl))
    ratios = []
    for network in LAYERS:
        with tempfile.TemporaryDirectory() as folder:
            ratios.append(ratio_of(network, given, Path(folder)))
    print(f"larger of both: ratio {max(ratios):.3f}")


if __name__ == "__main__":
    main()
