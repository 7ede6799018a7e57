"""Clients that hold parts of one graph, without the links between clients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

from pydantic import NonNegativeInt, PositiveFloat, PositiveInt
from torch import Tensor

from ramet.data import ClientData, NodeGraph, Split
from ramet.data.graphs.neighbour_sums import outside_of
from ramet.data.own.schema import TaskName
from ramet.data.sources.cache import cached
from ramet.data.sources.node_graphs import read_graph
from ramet.data.splits import node_split
from ramet.errors import RametError
from ramet.options import ProperShare
from ramet.partition.base import Reading, Setting
from ramet.partition.corruption import NO_CORRUPTION, Corruption
from ramet.partition.node_cuts import NodeCut, largest_component, members

_FORMAT = 3
EvaluatedOn = Literal["own", "whole"]


@dataclass(frozen=True)
class SubgraphSetting(Setting):
    """One graph whose nodes are distributed over the clients, by default by Louvain communities.

    A client holds its own nodes and the links among them. Links between clients are lost. The split
    into training, validation and test nodes is that of the whole graph. A single client holds
    everything, as the baseline without federation.

    ``evaluated_on`` selects the graph on which a client's model is evaluated. ``own`` is the
    client's own part, as a site would use the model. ``whole`` is the whole graph with all its
    links, as in FedSage's paper.
    """

    about: str
    source: str
    read: Callable[[Path], NodeGraph]
    parts: int
    evaluated_on: EvaluatedOn = "own"
    partition: NodeCut = "louvain"
    alpha: float = 0.5
    train: float = 0.6
    val: float | None = None
    partition_seed: int | None = None
    corruption: Corruption = NO_CORRUPTION
    metric: str | None = None
    rounds: int = 50
    connected: bool = False
    """Whether it is the graph's largest connected component."""
    task: ClassVar[TaskName] = "node-classification"

    @cached_property
    def clients(self) -> tuple[str, ...]:
        return tuple(f"part-{number:02d}" for number in range(self.parts))

    @cached_property
    def source_of(self) -> dict[str, str]:
        return dict.fromkeys(self.clients, self.source)

    def client_data(self, client: str, reading: Reading) -> ClientData[NodeGraph, Split]:
        number = self.clients.index(client)
        held = self._part(number, reading)
        return (
            self.corruption.applied(held, reading.split_seed + number) if self.corruption else held
        )

    def overview(self, reading: Reading) -> ClientData[NodeGraph, Split]:
        whole = self.read(reading.data)
        return ClientData(whole, node_split(whole.labels, reading.split_seed, self.train, self.val))

    def _part(self, number: int, reading: Reading) -> ClientData[NodeGraph, Split]:
        everything = self.overview(reading)
        if self.parts == 1:
            return everything
        whole = everything.content
        parts = self._members(whole, reading)
        own, outside = parts[number], outside_of(whole, parts)
        part, split = whole.subgraph(own), everything.split.restricted_to(own, whole.nodes)
        part = replace(part, outside=outside[number] if outside else None)
        if self.evaluated_on == "own":
            return ClientData(part, split)
        elsewhere = Split(split.train, everything.split.val, everything.split.test)
        return ClientData(part, elsewhere, {"val": whole, "test": whole})

    def _members(self, whole: NodeGraph, reading: Reading) -> list[Tensor]:
        """The nodes of each client; cached because Louvain takes seconds."""
        seed, cut = self.partition_seed, self.partition
        seed = reading.split_seed if seed is None else seed
        name = self.source.partition(":")[2].lower()
        alpha = self.alpha if cut == "label" else None
        tensors = cached(
            reading.data,
            f"{name}-parts",
            [_FORMAT, self.source, self.parts, seed, cut, alpha, self.connected],
            lambda: dict(
                zip(self.clients, members(cut, whole, self.parts, seed, self.alpha), strict=True)
            ),
        )
        return [tensors[client] for client in self.clients]


def parts_of(
    about: str, family: str, name: str, width: int = 0, metric: str | None = None
) -> Callable[..., SubgraphSetting]:
    """A setting with the options that all parts of one graph have."""

    def setting(
        clients: PositiveInt = 5,
        partition: NodeCut = "louvain",
        alpha: PositiveFloat = 0.5,
        evaluated_on: EvaluatedOn = "own",
        train: ProperShare = 0.6,
        features: NonNegativeInt = width,
        connected: bool = False,
        normalised: bool = False,
        val: ProperShare | None = None,
        partition_seed: NonNegativeInt | None = None,
        corruption: Corruption = NO_CORRUPTION,
    ) -> SubgraphSetting:
        """``alpha``: of partition=label; the smaller, the more skewed the classes.

        ``train``: share of the nodes; ``val``: for validation, by default half of the others, and
        the rest for test. ``partition_seed``: by default that of the split; another partition for
        each split varies two things at once.
        ``features``: number of random projections of the features; 0 keeps them.
        ``connected``: only the largest connected component. ``normalised``: the features of each
        node are divided by their sum.
        """
        if val is not None and train + val >= 1:
            raise RametError(f"train={train:g} and val={val:g} leave no nodes for test.")
        way = {"louvain": "community", "label": "class"}.get(partition, f"{partition} parts")
        return SubgraphSetting(
            f"{about} by {way}, links between clients lost",
            f"{family}:{name}",
            lambda root: _read(root, family, name, features, connected, normalised),
            clients,
            evaluated_on,
            partition,
            alpha,
            train,
            val,
            partition_seed,
            corruption,
            metric,
            connected=connected,
        )

    return setting


def _read(
    root: Path, family: str, name: str, features: int, connected: bool, normalised: bool
) -> NodeGraph:
    graph = read_graph(root, family, name, features)
    if connected:
        graph = graph.subgraph(largest_component(graph))
    if normalised:
        sums = graph.features.sum(dim=1, keepdim=True).clamp(min=1)
        graph = replace(graph, features=graph.features / sums)
    return graph
