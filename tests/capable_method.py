"""A method that has any of the capabilities that methods can have, by name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch_geometric.data import Data

from ramet import ClientData, Method, Reading, Setting, Split, fedavg, from_pyg
from ramet.data import Batch, StructureEncoding
from ramet.data.own.schema import Schema, TaskName
from ramet.experiment.capabilities import Can
from ramet.methods.fedopt import AdaptiveStep
from ramet.models.node_hops import NodeHops
from ramet.models.shape import GraphShape, NodeShape
from ramet.models.single_channel import GIN
from ramet.payload import Arrays, Payload, nothing
from ramet.rules.extras import Extras, Stage
from ramet.rules.merging import Merging, Reply, Summing, WeightedMean
from ramet.rules.pace import FirstReplies
from ramet.rules.robust import Median
from ramet.rules.server import Server
from ramet.tasks import (
    Classes,
    GraphClassification,
    GraphRegression,
    GraphSamples,
    NodeClassification,
    NodeRegression,
    NodeSamples,
    TargetTask,
)
from ramet.training.local import LocalTraining, Penalty, Session, Term

Change = Callable[[Method], Method]


class InOrder(WeightedMean):
    """The mean, by a rule that has to see single replies."""

    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        return super().merge(state, sorted(replies, key=lambda reply: reply[0]), server)


@dataclass(frozen=True)
class Zero:
    """Start values: one number, 0."""

    name: str

    def __call__(self, model: nn.Module, shared: Sequence[str]) -> Mapping[str, Tensor]:
        return {self.name: torch.zeros(1)}


class Added(Summing):
    """The sum of the extras of a round."""

    def term(self, reply: Payload) -> Arrays:
        return {name: array.astype(np.float64) for name, array in reply.extras.items()}

    def step(self, state: Payload, total: Arrays, server: Server) -> Payload:
        return Payload({name: array.astype(np.float32) for name, array in total.items()})


class Largest:
    """The largest of the extras of a round."""

    def start(self, shared: Arrays) -> Payload:
        return Payload(dict(shared))

    def send(self, state: Payload, client: str) -> Arrays:
        return state.arrays

    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        received = [reply.extras for _, reply in replies]
        return Payload({n: np.maximum.reduce([own[n] for own in received]) for n in state.arrays})


@dataclass(frozen=True)
class Send:
    """Sends the number of the round as an extra."""

    name: str

    def __call__(self, session: Session) -> None:
        session.sending[self.name] = torch.tensor([float(session.randomness.round)])


def small_weights(session: Session) -> Term:
    weights = [*session.model.parameters()]
    return lambda batch, output: 1e-3 * torch.stack([w.square().sum() for w in weights]).sum()


class Decaying(LocalTraining):
    """A learning rate that decays every round."""

    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        loss = super().fit(session, penalty)
        for group in session.optimiser.param_groups:
            group["lr"] *= 0.9
        return loss


class Counting(GIN):
    """A network with a buffer: the number of batches that it was trained on."""

    batches: Tensor

    def __init__(self, shape: GraphShape) -> None:
        super().__init__(shape)
        self.register_buffer("batches", torch.zeros(1))

    def forward(self, batch: Batch) -> Tensor:
        if self.training:
            self.batches += 1
        return super().forward(batch)


class CountingHops(NodeHops):
    """The same for nodes."""

    def __init__(self, shape: NodeShape) -> None:
        super().__init__(shape)
        self.register_buffer("batches", torch.zeros(1))


@dataclass(frozen=True)
class Sizes(GraphRegression):
    """How many nodes a graph has, on data with classes."""

    name = "graph-classification"
    metric: str = "r2"

    def samples(self, data: ClientData[Any, Any]) -> GraphSamples:
        block = data.content
        sizes = block.node_starts.diff().float().unsqueeze(1)
        return GraphSamples(replace(block, labels=sizes, class_count=1), data.split)

    def declared_shape(self, schema: Schema, inputs: StructureEncoding) -> GraphShape:
        return replace(super().declared_shape(schema, inputs), classes=1)


@dataclass(frozen=True)
class Degrees(NodeRegression):
    """How many neighbours a node has, on data with classes."""

    name = "node-classification"
    metric: str = "r2"

    def samples(self, data: ClientData[Any, Any]) -> NodeSamples:
        graph = replace(data.content, labels=data.content.degrees.float().unsqueeze(1), classes=1)
        return NodeSamples(graph, data.split)

    def declared_shape(self, schema: Schema, inputs: StructureEncoding) -> NodeShape:
        return replace(super().declared_shape(schema, inputs), classes=1)


def smoothed(on_nodes: bool = False) -> TargetTask:
    """The task of the data with smoothed labels."""
    task = NodeClassification() if on_nodes else GraphClassification()
    return replace(task, target=Smoothed())


class Smoothed(Classes):
    """Cross-entropy with smoothed labels."""

    def loss(self, output: Tensor, labels: Tensor, scale: Tensor | None = None) -> Tensor:
        return nn.functional.cross_entropy(output, labels, label_smoothing=0.1)


def _extras(rule: Merging | None) -> Change:
    extras = Extras(Zero("number"), rule)
    return lambda method: replace(method, extras=extras, after=Send("number"))


def _stage(name: str, rule: Merging) -> Change:
    stage = Stage(name, Extras(Zero(name), rule), Send(name))
    return lambda method: replace(method, stages=(*method.stages, stage))


def _of_extras_only(method: Method) -> Method:
    with_extras = method if method.extras else _extras(Added())(method)
    return replace(with_extras, shared=nothing)


@dataclass(frozen=True)
class Shops(Setting):
    """Shops with customers, or with graphs, of two kinds."""

    on_nodes: bool = False
    clients = ("north", "east", "south")

    @property
    def task(self) -> TaskName:
        return "node-classification" if self.on_nodes else "graph-classification"

    def client_data(self, client: str, reading: Reading) -> ClientData[Any, Split]:
        draw = torch.Generator().manual_seed(self.clients.index(client))
        graphs = [
            _graph(kind % 2, draw, self.on_nodes) for kind in range(1 if self.on_nodes else 20)
        ]
        return from_pyg(graphs[0] if self.on_nodes else graphs, reading, classes=2)


def _graph(kind: int, draw: torch.Generator, many: bool) -> Data:
    nodes = 40 if many else 8
    kinds = torch.randint(2, (nodes,), generator=draw) if many else torch.tensor([kind])
    x = torch.randn(nodes, 4, generator=draw) + kinds.unsqueeze(1)
    ends = torch.randint(nodes, (2, 4 * nodes), generator=draw)
    return Data(x=x, y=kinds, edge_index=ends)


CHANGES: dict[Can, Change] = {
    Can.ROBUST: lambda method: replace(method, merging=Median()),
    Can.OWN_SUM: lambda method: replace(method, merging=AdaptiveStep()),
    Can.COMPARING: lambda method: replace(method, merging=InOrder()),
    Can.WHOLE: lambda method: replace(method, switchable=nothing),
    Can.SUMMED_EXTRAS: _extras(Added()),
    Can.COMPARED_EXTRAS: _extras(Largest()),
    Can.READ_EXTRAS: _extras(None),
    Can.SUMMED_STAGES: _stage("summed", Added()),
    Can.COMPARED_STAGES: _stage("compared", Largest()),
    Can.PACE: lambda method: replace(method, pace=FirstReplies(count=2)),
    Can.ARRIVAL: lambda method: replace(method, pace=FirstReplies(count=2, simulated=False)),
    Can.PENALTY: lambda method: replace(method, penalty=small_weights),
    Can.AFTER: lambda method: replace(method, after=method.after or (lambda session: None)),
    Can.PERSONAL: lambda method: replace(method, personal=lambda model, memory: model),
    Can.OWN_TRAINING: lambda method: replace(method, training=Decaying()),
    Can.STOPPED_TRAINING: lambda m: replace(m, training=LocalTraining(stop_after=1)),
    Can.NOTHING: lambda method: replace(method, shared=nothing),
    Can.EXTRAS_ONLY: _of_extras_only,
    Can.CLASSES: lambda method: replace(method, needs_classes=True),
    Can.NUMBERS: lambda method: replace(method, task=Sizes()),
    Can.OWN_NETWORK: lambda method: replace(method, model=GIN),
}
"""In an order in which they can be applied one after the other."""


def capable(capabilities: str = "", on_nodes: bool = False) -> Method:
    """FedAvg with the capabilities of these names, joined by `+`; its network may be for nodes."""
    asked = {Can[name] for name in capabilities.split("+") if name}
    method = replace(fedavg(), name="capable")
    for can, change in CHANGES.items():
        method = change(method) if can in asked else method
    if on_nodes and Can.OWN_NETWORK in asked:
        method = replace(method, model=NodeHops)
    if on_nodes and Can.NUMBERS in asked:
        method = replace(method, task=Degrees())
    return method
