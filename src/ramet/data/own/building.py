"""Graphs from what a site's files hold, with columns prepared as the sites have agreed."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import TypeAlias

import torch
from torch import Tensor

from ramet.data.graphs.edge_graph import EdgeGraph, LabelledEdges
from ramet.data.graphs.graph_block import GraphBlock, block_with_values
from ramet.data.graphs.hetero_graph import HeteroGraph, Links, NodeType, Relation
from ramet.data.graphs.node_graph import NodeGraph
from ramet.data.own.columns import ColumnValues
from ramet.data.own.content import Content
from ramet.data.own.description import Description
from ramet.data.own.links import links_of, side_by_side
from ramet.data.own.preparation import Preparation
from ramet.data.own.problems import Problems
from ramet.data.own.schema import CLASSES, OF_EDGES, OF_LABELS, TARGETS, Level

Graph: TypeAlias = GraphBlock | NodeGraph | HeteroGraph


@dataclass(frozen=True)
class Built:
    """A site's graph and, if it was another one later, those of validation and test."""

    graph: Graph
    later: Mapping[str, Graph] = field(default_factory=dict)


@dataclass(frozen=True)
class Unprepared:
    """What a site's files hold, and their description."""

    content: Content
    description: Description
    toml: str
    columns: Mapping[str, ColumnValues]

    def rebuilt(self, preparation: Preparation) -> Built | None:
        """The graph, with its columns as features; None if others were agreed on."""
        if not covers(preparation, self.description, self.toml, Problems()):
            return None
        nodes, edges = dict(self.content.nodes), dict(self.content.edges)
        for table, values in self.columns.items():
            if table in OF_LABELS:
                continue
            features, name = preparation.features(table, values), table.removeprefix(OF_EDGES)
            if name == table:
                nodes[name] = replace(nodes[name], features=features)
            else:
                edges[name] = replace(edges[name], attributes=features)
        content = replace(self.content, nodes=nodes, edges=edges)
        graph, _ = BUILDERS[self.description.level](content, self.description)
        return Built(graph)


def covers(
    preparation: Preparation, description: Description, toml: str, problems: Problems
) -> bool:
    """Whether the preparation has all columns of the site; others are reported as problems."""
    for table, columns in description.prepared_tables.items():
        if table == CLASSES:
            continue  # new data and runs that start from others may do without
        where = f"[{table if table.startswith(OF_EDGES) else f'nodes.{table}'}]"
        where = "'label'" if table == TARGETS else where
        prepared = preparation.types.get(table, {})
        for column, one in columns.items():
            if column not in prepared:
                text = f"{where} has a column that was not declared in training"
                problems.add(toml, f"{text}. Remove it, or train again", column=column)
            elif (difference := prepared[column].difference(one)) is not None:
                problems.add(toml, f"'{column}' of {where} {difference}")
    return not problems


def _labels(labels: Tensor) -> Tensor:
    """Classes, 0 where unknown; or numbers."""
    return labels if labels.is_floating_point() else labels.clamp(min=0)


def _graph_block(content: Content, description: Description) -> tuple[Graph, Tensor | None]:
    (nodes,), (edges,), graphs = content.nodes.values(), content.edges.values(), content.graphs
    assert graphs is not None
    order = torch.argsort(graphs.of_node, stable=True)
    new_index = torch.empty_like(order)
    new_index[order] = torch.arange(order.numel())
    sizes = torch.bincount(graphs.of_node, minlength=len(graphs.labels))
    starts = torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])
    features, labels = nodes.features[order], _labels(graphs.labels)
    (name,) = description.edges
    edges = replace(edges, ends=new_index[edges.ends])
    links = links_of(edges, description.edges[name], nodes.count)
    if links.values:
        given = links.ends, links.values, starts
        block = block_with_values(*given, features, features.size(1), labels)
    else:
        rows, columns = torch.cat([links.ends, links.ends.flip(0)], dim=1)
        ends = rows, columns, starts
        block = GraphBlock.from_links(*ends, features, features.size(1), labels, description.site)
    return replace(block, class_count=len(description.outputs)), graphs.parts


def _node_graph(content: Content, description: Description) -> tuple[Graph, Tensor | None]:
    (nodes,) = content.nodes.values()
    labels = torch.zeros(nodes.count).long() if nodes.labels is None else nodes.labels
    names = sorted(content.edges)
    links = [links_of(content.edges[n].there, description.edges[n], nodes.count) for n in names]
    kinds = [torch.full((p.ends.size(1),), n, dtype=torch.uint8) for n, p in enumerate(links)]
    left, right = torch.cat([of_kind.ends for of_kind in links], dim=1).to(torch.int32)
    graph = NodeGraph(
        features=nodes.features,
        labels=_labels(labels),
        classes=len(description.outputs),
        left=left.contiguous(),
        right=right.contiguous(),
        kinds=torch.cat(kinds),
        kind_names=tuple(names),
        trained=torch.zeros(nodes.count, dtype=torch.bool),
        link_values=side_by_side(links),
        ids=nodes.ids,
    )
    return graph, nodes.parts


def _edge_graph(content: Content, description: Description) -> tuple[Graph, Tensor | None]:
    graph, _ = _node_graph(content, description)
    assert isinstance(graph, NodeGraph)
    edges = content.edges[description.labelled]
    ordered = description.edges[description.labelled].directed
    labels = torch.zeros_like(edges.ends[0]) if edges.labels is None else _labels(edges.labels)
    asked = LabelledEdges(edges.ends, edges.attributes, ordered)
    return EdgeGraph.of(graph, asked, labels), edges.parts


def _hetero_graph(content: Content, description: Description) -> tuple[Graph, Tensor | None]:
    names = sorted(description.nodes)
    types = tuple(
        NodeType(name, nodes.count, nodes.features, nodes.ids)
        for name, nodes in ((name, content.nodes[name]) for name in names)
    )
    counts = torch.tensor([0, *(kind.nodes for kind in types)])
    starts = dict(zip(names, counts.cumsum(0).tolist(), strict=False))
    relations, links, parts = [], [], []
    for kind, name in enumerate(sorted(description.edges)):
        (head, tail), edges = description.ends(name), content.edges[name]
        relations.append(Relation(name, names.index(head), names.index(tail)))
        heads, tails = edges.ends
        links.append(
            Links(heads + starts[head], tails + starts[tail], torch.full_like(heads, kind))
        )
        parts.append(torch.zeros_like(heads) if edges.parts is None else edges.parts)
    joined = Links.joined(links)
    split_given = any(edges.parts is not None for edges in content.edges.values())
    learned = torch.ones(len(joined), dtype=torch.bool)
    graph = HeteroGraph(types, tuple(relations), joined, learned)
    return graph, torch.cat(parts) if split_given else None


BUILDERS: dict[Level, Callable[[Content, Description], tuple[Graph, Tensor | None]]] = {
    "graph": _graph_block,
    "node": _node_graph,
    "edge": _edge_graph,
    "link": _hetero_graph,
}
