"""Graphs with hidden kinds of links, made from a heterogeneous graph by rules.

The graph keeps the nodes of one target type, with their features and labels. Each rule produces
links of one kind between them. The kind is hidden from most methods; ``kinds`` keeps it for methods
and analyses that may know it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from ramet.data.graphs.node_graph import NodeGraph
from ramet.errors import RametError


class Rule(Protocol):
    """Returns links between the target's nodes, without duplicates."""

    def __call__(self, data: Any, target: str, draw: np.random.Generator) -> Tensor: ...


@dataclass(frozen=True)
class Direct:
    """The links of one edge type between target nodes."""

    relation: str

    def __call__(self, data: Any, target: str, draw: np.random.Generator) -> Tensor:  # noqa: ARG002
        return _deduplicated(_links(data, target, self.relation, target))


@dataclass(frozen=True)
class Shares:
    """Pairs of nodes with at least ``at_least`` common neighbours of a type.

    If there are more than ``most`` such pairs, a random sample of that size.
    """

    neighbour: str
    at_least: int = 1
    most: int | None = None

    def __call__(self, data: Any, target: str, draw: np.random.Generator) -> Tensor:
        from scipy.sparse import csr_array, triu  # imported here to keep start-up fast

        ends = _links(data, target, None, self.neighbour)
        shape = (data[target].num_nodes, data[self.neighbour].num_nodes)
        incidence = csr_array((np.ones(ends.size(1)), ends.numpy()), shape=shape)
        incidence.data[:] = 1
        common = triu(incidence @ incidence.T, k=1).tocoo()
        enough = np.flatnonzero(common.data >= self.at_least)
        if self.most is not None and enough.size > self.most:
            enough = np.sort(draw.choice(enough, self.most, replace=False))
        return torch.from_numpy(np.stack([common.row[enough], common.col[enough]]).astype(np.int64))


@dataclass(frozen=True)
class Noise:
    """Random pairs."""

    links: int

    def __call__(self, data: Any, target: str, draw: np.random.Generator) -> Tensor:
        nodes = data[target].num_nodes
        drawn = np.empty((2, 0), dtype=np.int64)
        while drawn.shape[1] < self.links:
            pairs = draw.integers(nodes, size=(2, self.links))
            pairs = np.sort(pairs[:, pairs[0] != pairs[1]], axis=0)
            drawn = np.unique(np.concatenate([drawn, pairs], axis=1), axis=1)
        chosen = np.sort(draw.choice(drawn.shape[1], self.links, replace=False))
        return torch.from_numpy(drawn[:, chosen])


def latent_graph(data: Any, target: str, rules: Mapping[str, Rule], seed: int = 0) -> NodeGraph:
    """Apply the rules to PyG's ``HeteroData``. The same arguments give the same graph."""
    draw = np.random.default_rng(seed)
    pairs = [rule(data, target, draw) for rule in rules.values()]
    joined = torch.cat(pairs, dim=1).to(torch.int32)
    labels = data[target].y
    if int(labels.min()) < 0:
        raise RametError(f"some nodes of '{target}' have no label. Give each node a class.")
    return NodeGraph(
        features=data[target].x.float(),
        labels=labels,
        classes=int(labels.max()) + 1,
        left=joined[0],
        right=joined[1],
        kinds=torch.repeat_interleave(
            torch.arange(len(pairs), dtype=torch.uint8), torch.tensor([p.size(1) for p in pairs])
        ),
        kind_names=tuple(rules),
        trained=torch.zeros(labels.numel(), dtype=torch.bool),
    )


def _links(data: Any, source: str, relation: str | None, end: str) -> Tensor:
    for key in data.edge_types:
        if key[0] == source and key[2] == end and relation in (None, key[1]):
            edge_index: Tensor = data[key].edge_index
            return edge_index
    known = ", ".join("-".join(key) for key in data.edge_types)
    raise RametError(f"there are no links {source}-{relation or '…'}-{end}, only {known}.")


def _deduplicated(pairs: Tensor) -> Tensor:
    """Drop self loops and duplicates of undirected links, and put the smaller node first."""
    low, high = pairs.amin(dim=0), pairs.amax(dim=0)
    unique: Tensor = torch.unique(torch.stack([low, high])[:, low != high], dim=1)
    return unique
