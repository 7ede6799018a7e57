"""Graphs as the arguments of networks with PyG's signature."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from ramet.data import EdgeGraph, GraphBlock, HeteroGraph, NodeGraph
from ramet.data.graphs.graph_block import Batch
from ramet.data.graphs.hetero_graph import Links
from ramet.models.link_kinds import FindsLinkKinds
from ramet.models.link_reading import values_read
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
        plain = {"x": graph.features, **_edges(graph, model), **_asked(graph)}
        if isinstance(model, FindsLinkKinds) and not model.cluster:
            plain["edge_type"] = graph.kinds[graph.both_ways.links].long()
        return plain
    batch = graph.cut(torch.arange(graph.graphs))
    plain = {"x": batch.x, **_edges(batch, model), "batch": batch.batch}
    if isinstance(model, SingleChannel) or not batch.structure.size(1):
        return plain
    return {**plain, "structure": batch.structure}


_NAMES = {"attributes": "edge_attr", "weights": "edge_weight"}


def _edges(graph: NodeGraph | Batch, model: nn.Module) -> Inputs:
    """The links, and what the network reads of their values."""
    read = values_read(model)
    edges = graph.edges if "direction" in read else graph.both_ways
    given: Inputs = {"edge_index": edges.index}
    values = {name: getattr(edges.values, name) for name in _NAMES if name in read}
    return {**given, **{_NAMES[n]: value for n, value in values.items() if value is not None}}


def _asked(graph: NodeGraph) -> Inputs:
    """The edges to classify, if these are the samples."""
    if not isinstance(graph, EdgeGraph):
        return {}
    given: Inputs = {"edge_label_index": graph.asked.ends}
    if graph.asked.attributes is not None:
        given["edge_label_attr"] = graph.asked.attributes
    return given


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
