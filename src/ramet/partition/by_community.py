"""Clients that hold communities of one graph, without the links between clients."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import ClassVar, Literal

import torch
from pydantic import NonNegativeInt, PositiveInt
from torch import Tensor

from ramet.data import ClientData, NodeGraph, Split
from ramet.data.own import TaskName
from ramet.data.sources.cache import cached
from ramet.data.sources.node_graphs import read_nodes
from ramet.data.splits import node_split
from ramet.errors import RametError
from ramet.partition.base import BuiltIn, Reading

_FORMAT = 1
EvaluatedOn = Literal["own", "whole"]


@dataclass(frozen=True)
class SubgraphSetting(BuiltIn):
    """One graph whose nodes are distributed over the clients by Louvain communities.

    A client holds its own nodes and the links among them. Links between clients are lost. The split
    into training, validation and test nodes is that of the whole graph. A single client holds
    everything, as the baseline without federation.

    ``judged`` selects the graph on which a client's model is evaluated. ``own`` is the client's own
    part, as a site would use the model. ``whole`` is the whole graph with all its links, as in
    FedSage's paper.
    """

    about: str
    source: str
    read: Callable[[Path], NodeGraph]
    parts: int
    judged: EvaluatedOn = "own"
    rounds: int = 50
    task: ClassVar[TaskName] = "node-classification"

    @cached_property
    def clients(self) -> tuple[str, ...]:
        return tuple(f"part-{number:02d}" for number in range(self.parts))

    @cached_property
    def source_of(self) -> dict[str, str]:
        return dict.fromkeys(self.clients, self.source)

    def client_data(self, client: str, reading: Reading) -> ClientData[NodeGraph, Split]:
        everything = self.overview(reading)
        if self.parts == 1:
            return everything
        whole, number = everything.content, self.clients.index(client)
        own = (self._owners(whole, reading) == number).nonzero().flatten()
        part, split = whole.subgraph(own), everything.split.restricted_to(own, whole.nodes)
        if self.judged == "own":
            return ClientData(part, split)
        return ClientData(
            part, Split(split.train, everything.split.val, everything.split.test), whole
        )

    def overview(self, reading: Reading) -> ClientData[NodeGraph, Split]:
        whole = self.read(reading.data)
        return ClientData(whole, node_split(whole.labels, reading.split_seed))

    def _owners(self, whole: NodeGraph, reading: Reading) -> Tensor:
        """[nodes] index of the client that owns each node; cached because Louvain takes seconds."""
        seed = reading.split_seed
        name = self.source.partition(":")[2].lower()
        tensors = cached(
            reading.data,
            f"{name}-parts",
            [_FORMAT, self.source, self.parts, seed],
            lambda: {"owners": pack(communities(whole, seed), self.parts, whole.nodes)},
        )
        return tensors["owners"]


def communities(graph: NodeGraph, seed: int) -> list[list[int]]:
    """Louvain communities of the nodes, the largest first."""
    import networkx  # slow to import

    links = networkx.Graph()
    links.add_nodes_from(range(graph.nodes))
    links.add_edges_from(zip(graph.left.tolist(), graph.right.tolist(), strict=True))
    groups = networkx.community.louvain_communities(links, seed=seed)
    return sorted((sorted(members) for members in groups), key=lambda m: (-len(m), m[0]))


def pack(groups: Iterable[list[int]], parts: int, nodes: int) -> Tensor:
    """[nodes] part of each node: each group goes as a whole into the smallest part so far."""
    owners = torch.full((nodes,), -1, dtype=torch.int64)
    sizes = [0] * parts
    for members in groups:
        part = sizes.index(min(sizes))
        owners[members] = part
        sizes[part] += len(members)
    if min(sizes) < 1:
        raise RametError(
            f"the graph has too few communities for {parts} clients. Use fewer clients."
        )
    return owners


def cora(clients: PositiveInt = 5, judged: EvaluatedOn = "own") -> SubgraphSetting:
    return _setting("Cora's papers", "Planetoid", "Cora", clients, judged)


def citeseer(clients: PositiveInt = 5, judged: EvaluatedOn = "own") -> SubgraphSetting:
    return _setting("CiteSeer's papers", "Planetoid", "CiteSeer", clients, judged)


def coauthor_cs(
    clients: PositiveInt = 5, judged: EvaluatedOn = "own", features: NonNegativeInt = 512
) -> SubgraphSetting:
    """``features``: number of random projections of the 6,805 words; 0 keeps the words."""
    return _setting("computer scientists", "Coauthor", "CS", clients, judged, features)


def _setting(
    about: str, family: str, name: str, clients: int, judged: EvaluatedOn, features: int = 0
) -> SubgraphSetting:
    return SubgraphSetting(
        f"{about} by community, links between clients lost",
        f"{family}:{name}",
        lambda root: read_nodes(root, family, name, features),
        clients,
        judged,
    )
