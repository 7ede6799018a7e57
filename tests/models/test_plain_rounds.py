"""A round of each network on numbers, labels and edges is one step of a plain loop over PyG."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, cast

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.data import Batch, Data
from torch_geometric.nn import (
    DirGNNConv,
    GATConv,
    GATv2Conv,
    GCNConv,
    GINConv,
    GINEConv,
    SAGEConv,
    global_add_pool,
)

import ramet
from ramet.data.sources.planted_targets import TargetTaskName, planted_targets
from ramet.experiment import RunFolder
from ramet.experiment.run_models import start_model_of

WIDTH, HEADS = 16, 4
TASKS: dict[TargetTaskName, int] = {
    "node-regression": 1,
    "node-multilabel": 2,
    "edge-classification": 2,
}
GRAPH_TASKS: dict[TargetTaskName, int] = {"graph-regression": 1, "graph-multilabel": 2}


def inner(width: int, out: int) -> nn.Module:
    return nn.Sequential(nn.Linear(width, WIDTH), nn.ReLU(), nn.Linear(WIDTH, out))


LAYERS: dict[str, Callable[[int, int, int], nn.Module]] = {
    "gin": lambda width, out, _: GINConv(inner(width, out)),
    "gcn": lambda width, out, _: GCNConv(width, out),
    "sage": lambda width, out, _: SAGEConv(width, out),
    "gat": lambda width, out, heads: GATConv(width, out // heads, heads),
    "gine": lambda width, out, _: GINEConv(inner(width, out), train_eps=True),
    "gatv2": lambda width, out, heads: GATv2Conv(width, out // heads, heads, edge_dim=WIDTH),
    "dir-sage": lambda width, out, _: DirGNNConv(SAGEConv(width, out, root_weight=False)),
}
READS_ATTRIBUTES, EMBEDS = ("gine", "gatv2"), ("gine", "gatv2", "dir-sage")
RENAMED = {
    "gin": {"first.": "nn.0.", "second.": "nn.2."},
    "gcn": {"weight": "lin.weight"},
    "sage": {"neighbours.": "lin_l.", "own.": "lin_r."},
    "gat": {"weight": "lin.weight", "of_source": "att_src", "of_target": "att_dst"},
}


class Plain(nn.Module):
    """Two of PyG's layers, and for edges a head over both ends and the edge's own values."""

    def __init__(self, network: str, task: str, outputs: int) -> None:
        super().__init__()
        self.network, self.of_edges = network, task == "edge-classification"
        width = WIDTH if network in EMBEDS else 2
        last = WIDTH if self.of_edges else outputs
        make = LAYERS[network]
        self.layers = nn.ModuleList([make(width, WIDTH, HEADS), make(WIDTH, last, 1)])
        self.embed = nn.Linear(2, WIDTH) if network in EMBEDS else None
        carried = 3 if self.of_edges else 1
        self.embed_links = nn.Linear(carried, WIDTH) if network in READS_ATTRIBUTES else None
        if self.of_edges:
            self.source, self.target = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
            self.attributes = nn.Linear(1, WIDTH, bias=False)
            self.classify = nn.Linear(WIDTH, outputs)

    def forward(self, data: Data) -> Tensor:
        index, carried = data.edge_index, data.edge_attr
        if self.of_edges and self.network != "dir-sage":
            index = torch.cat([index, index.flip(0)], dim=1)
            zeros, one = torch.zeros_like(carried), torch.ones_like(carried)
            along, against = [carried, zeros, one], [zeros, carried, -one]
            carried = torch.cat([torch.cat(along, dim=1), torch.cat(against, dim=1)])
        more = [] if self.embed_links is None else [self.embed_links(carried)]
        activation = functional.elu if self.network in ("gat", "gatv2") else functional.relu
        x = data.x if self.embed is None else self.embed(data.x)
        x = activation(self.layers[0](x, index, *more))
        x = cast(Tensor, self.layers[1](x, index, *more))
        if not self.of_edges:
            return x
        source, target = x.relu()[data.edge_index]
        joined = self.source(source) + self.target(target) + self.attributes(data.edge_attr)
        logits: Tensor = self.classify(joined.relu())
        return logits


class PlainOfGraphs(nn.Module):
    """Two of PyG's layers, the sum over the nodes of each graph, and a head of two layers."""

    def __init__(self, network: str, outputs: int) -> None:
        super().__init__()
        self.network, make = network, LAYERS[network]
        self.embed = nn.Linear(2, WIDTH)
        self.embed_links = nn.Linear(1, WIDTH) if network in READS_ATTRIBUTES else None
        self.layers = nn.ModuleList([make(WIDTH, WIDTH, HEADS) for _ in range(2)])
        self.hidden, self.classify = nn.Linear(WIDTH, WIDTH), nn.Linear(WIDTH, outputs)

    def forward(self, data: Data) -> Tensor:
        more = [] if self.embed_links is None else [self.embed_links(data.edge_attr)]
        activation = functional.elu if self.network in ("gat", "gatv2") else functional.relu
        x = self.embed(data.x)
        for layer in self.layers:
            x = activation(layer(x, data.edge_index, *more))
        logits: Tensor = self.classify(self.hidden(global_add_pool(x, data.batch)).relu())
        return logits


def theirs(name: str, network: str) -> str:
    """The name of one of Ramet's arrays in the plain network."""
    name = name.removeprefix("nodes.")
    if name.startswith("layers."):
        for ours, other in RENAMED.get(network, {}).items():
            name = name.replace(ours, other)
    return name


def plain_loss(output: Tensor, y: Tensor, train: Tensor, task: str) -> Tensor:
    if task == "edge-classification":
        return functional.cross_entropy(output[train], y[train])
    if task == "node-multilabel":
        return functional.binary_cross_entropy_with_logits(output[train], y[train])
    known = y[train]
    return functional.mse_loss(output[train], (known - known.mean()) / known.std(correction=0))


def trained(network: str, task: TargetTaskName, folder: Path) -> ramet.Result:
    """One step on all of a client's training samples."""
    options: dict[str, Any] = {"hidden": WIDTH, "dropout": 0, "algorithm": "sgd", "lr": 0.05}
    if network in ("gat", "gatv2"):
        options["heads"] = HEADS
    if task in GRAPH_TASKS:
        options["layers"] = 2
    return ramet.run(
        *("fedavg", "planted-targets"),
        network=network,
        rounds=1,
        out=folder / "run",
        observe=lambda record: None,
        predicts=task,
        clients=1,
        epochs=1,
        weight_decay=0,
        **options,
    )


def check_equal(
    result: ramet.Result, plain: nn.Module, network: str, loss_of: Callable[[Tensor], Tensor]
) -> None:
    """Check that a step of the plain network from the same start ends where the run did."""
    experiment = RunFolder(result.folder).experiment()
    start = start_model_of(experiment, "site-1").state_dict()
    parameters = dict(plain.named_parameters())
    assert {theirs(name, network) for name in start} == {*parameters}
    with torch.no_grad():
        for name, array in start.items():
            parameter = parameters[theirs(name, network)]
            parameter.copy_(array.view_as(parameter))
    torch.autograd.backward(loss_of(experiment.samples("site-1").split.train))
    torch.optim.SGD(plain.parameters(), lr=0.05).step()
    moved = 0.0
    for name, array in result.model("site-1").state_dict().items():
        same = parameters[theirs(name, network)].detach().view_as(array)
        torch.testing.assert_close(array, same, atol=1e-6, rtol=1e-5)
        moved += float((array - start[name]).abs().sum())
    assert moved > 0.01


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("network", LAYERS)
def test_a_round_is_a_step_of_a_plain_loop(
    network: str, task: TargetTaskName, tmp_path: Path
) -> None:
    plain, data = Plain(network, task, TASKS[task]), planted_targets(task, 0)
    assert isinstance(data, Data)

    def loss_of(train: Tensor) -> Tensor:
        return plain_loss(plain(data), data.y, train, task)

    check_equal(trained(network, task, tmp_path), plain, network, loss_of)


@pytest.mark.parametrize("task", GRAPH_TASKS)
@pytest.mark.parametrize("network", LAYERS)
def test_a_round_on_graphs_is_a_step_of_a_plain_loop(
    network: str, task: TargetTaskName, tmp_path: Path
) -> None:
    plain, data = PlainOfGraphs(network, GRAPH_TASKS[task]), planted_targets(task, 0)
    assert isinstance(data, list)

    def loss_of(train: Tensor) -> Tensor:
        batch = Batch.from_data_list([data[number] for number in train.tolist()])
        return plain_loss(plain(batch), batch.y, torch.arange(len(train)), f"node{task[5:]}")

    check_equal(trained(network, task, tmp_path), plain, network, loss_of)
