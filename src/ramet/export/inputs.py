"""Graphs as the arguments of networks with PyG's signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ramet.data import GraphBlock, HeteroGraph, NodeGraph
from ramet.data.graphs.hetero_graph import Links
from ramet.models.link_kinds import FindsLinkKinds
from ramet.models.pyg import EdgeType
from ramet.models.single_channel import SingleChannel

Inputs: TypeAlias = dict[str, Any]
"""Arguments of a network's ``forward``: tensors, or tensors by node type or relation."""
Graph: TypeAlias = GraphBlock | NodeGraph | HeteroGraph


def inputs_of(graph: Graph, model: nn.Module, pairs: Links | None = None) -> Inputs:
    """The arguments with which a network reads a graph; for links, the pairs to score."""
    if isinstance(graph, HeteroGraph):
        asked = pairs if pairs is not None else graph.links
        return {
            "x_dict": {t.name: t.features for t in graph.types if t.features is not None},
            "edge_index_dict": by_relation(graph, graph.links),
            "edge_label_index_dict": by_relation(graph, asked),
        }
    if isinstance(graph, NodeGraph):
        left, right = graph.left.long(), graph.right.long()
        ends = torch.stack([torch.cat([left, right]), torch.cat([right, left])])
        plain = {"x": graph.features, "edge_index": ends}
        if isinstance(model, FindsLinkKinds) and not model.cluster:
            plain["edge_type"] = torch.cat([graph.kinds, graph.kinds]).long()
        return plain
    batch = graph.cut(torch.arange(graph.graphs))
    plain = {"x": batch.x, "edge_index": batch.edge_index, "batch": batch.batch}
    if isinstance(model, SingleChannel) or not batch.structure.size(1):
        return plain
    return {**plain, "structure": batch.structure}


def by_relation(graph: HeteroGraph, links: Links) -> dict[EdgeType, Tensor]:
    """Pairs of nodes by relation, [2, pairs]; nodes count from the first one of their type."""
    found = {}
    for kind, relation in enumerate(graph.relations):
        own = links[(links.kinds == kind).nonzero().flatten()]
        ends = [own.heads - graph.type_starts[relation.head]]
        ends.append(own.tails - graph.type_starts[relation.tail])
        found[edge_types(graph)[kind]] = torch.stack(ends)
    return found


def edge_types(graph: HeteroGraph) -> list[EdgeType]:
    names = [kind.name for kind in graph.types]
    return [(names[one.head], one.name, names[one.tail]) for one in graph.relations]


def flat(tensors: Mapping[str, Any]) -> dict[str, Tensor]:
    """Tensors by name, with node types and relations after a slash."""
    named: dict[str, Tensor] = {}
    for argument, value in tensors.items():
        if isinstance(value, Tensor):
            named[argument] = value.contiguous()
            continue
        for key, tensor in value.items():
            parts = (key,) if isinstance(key, str) else key
            named["/".join([argument, *parts])] = tensor.contiguous()
    return named
