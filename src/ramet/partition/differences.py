"""How much clients with one graph each differ: in classes or relations, features and structure.

Each client is described by distributions over bins that all clients have in common. Two clients are
compared by the Jensen-Shannon divergence to base 2, as in :mod:`ramet.data.graphs.portrait`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ramet.data import ClientData, HeteroGraph, NodeGraph, Split
from ramet.data.graphs.portrait import divergences
from ramet.data.splits import counts_of

Matrix: TypeAlias = NDArray[np.float64]  # [clients, clients]
_BINS = 10
_DEGREES = 16
"""Nodes with this many links or more are in one bin."""


def node_differences(clients: Sequence[ClientData[NodeGraph, Split]]) -> dict[str, Matrix]:
    """Divergences of classes, of features if all clients have as many, and of degrees."""
    graphs = [held.content for held in clients]
    return {
        "classes": divergences([_shares(class_counts(held)) for held in clients]),
        **_of_features([graph.features for graph in graphs]),
        "structure": divergences([_degrees(g.left, g.right, g.nodes) for g in graphs]),
    }


def relation_differences(clients: Sequence[ClientData[HeteroGraph, Any]]) -> dict[str, Matrix]:
    """Divergences of the shares of relations, of features, and of degrees."""
    graphs = [held.content for held in clients]
    names = sorted({relation.name for graph in graphs for relation in graph.relations})
    return {
        "relations": divergences([_shares(_links_of(graph, names)) for graph in graphs]),
        **_of_typed_features(graphs),
        "structure": divergences([_degrees(g.links.heads, g.links.tails, g.nodes) for g in graphs]),
    }


def class_counts(held: ClientData[NodeGraph, Split]) -> Tensor:  # [classes]
    """The client's labelled nodes of each class."""
    split = held.split
    own = [split.train, split.val, split.test]
    elsewhere = (held.evaluated_on or {}).values()
    if any(graph.nodes != held.content.nodes for graph in elsewhere):  # nodes of all clients
        own = [split.train]
    return counts_of(held.content.labels[torch.cat(own)], held.content.classes)


def _links_of(graph: HeteroGraph, names: Sequence[str]) -> Tensor:
    counts = torch.bincount(graph.links.kinds, minlength=len(graph.relations)).tolist()
    by_name = {r.name: count for r, count in zip(graph.relations, counts, strict=True)}
    return torch.tensor([by_name.get(name, 0) for name in names])


def _of_typed_features(graphs: Sequence[HeteroGraph]) -> dict[str, Matrix]:
    """The mean over the node types that have the same features at all clients."""
    found = []
    for name in sorted({kind.name for graph in graphs for kind in graph.types}):
        kinds = [kind for graph in graphs for kind in graph.types if kind.name == name]
        features = [kind.features for kind in kinds if kind.features is not None]
        if len(features) == len(graphs):
            found += list(_of_features(features).values())
    return {"features": np.mean(found, axis=0)} if found else {}


def _of_features(features: Sequence[Tensor]) -> dict[str, Matrix]:
    """The mean divergence of single features; none if clients differ in their number."""
    if len({each.size(1) for each in features}) > 1 or not all(each.numel() for each in features):
        return {}
    return {"features": np.mean([divergences(each) for each in _histograms(features)], axis=0)}


def _histograms(features: Sequence[Tensor]) -> Iterator[list[Matrix]]:
    """For each feature, the distribution of its values at each client."""
    pooled = torch.cat([each.float() for each in features])
    quantiles = np.linspace(0, 1, _BINS + 1)[1:-1]
    for column in range(pooled.size(1)):
        edges = torch.from_numpy(np.unique(np.quantile(pooled[:, column].numpy(), quantiles)))
        yield [_binned(each[:, column].float(), edges.float()) for each in features]


def _binned(values: Tensor, edges: Tensor) -> Matrix:
    """The shares of values in each bin, with upper edges that belong to the bin below."""
    bins = torch.bucketize(values.contiguous(), edges)
    return _shares(torch.bincount(bins, minlength=edges.numel() + 1))


def _degrees(one: Tensor, other: Tensor, nodes: int) -> Matrix:
    degrees = torch.bincount(torch.cat([one, other]).long(), minlength=nodes)
    return _shares(torch.bincount(degrees.clamp(max=_DEGREES), minlength=_DEGREES + 1))


def _shares(counts: Tensor) -> Matrix:
    shares: Matrix = (counts.double() / counts.sum().clamp(min=1)).numpy()
    return shares
