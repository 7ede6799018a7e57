"""An invented example, so that an exported model can be checked without a site's data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ramet.data import (
    EdgeGraph,
    GraphBlock,
    HeteroGraph,
    LabelledEdges,
    NodeGraph,
    StructureEncoding,
)
from ramet.data.graphs.graph_block import block_with_values
from ramet.data.graphs.hetero_graph import Links, NodeType, Relation
from ramet.data.graphs.link_values import LinkValues
from ramet.data.own.columns import EPOCH, ColumnPart, ColumnValues, parsed
from ramet.data.own.preparation import Preparation, PreparedColumn
from ramet.data.own.schema import OF_LABELS, Schema, TargetKind
from ramet.export.inputs import Graph
from ramet.models.pyg import EdgeType
from ramet.models.shape import EdgeShape, GraphShape, LinkShape, NodeShape
from ramet.prediction import Decision

Table: TypeAlias = dict[str, list[str]]
"""The cells of each column."""
_LATEST = 20_000
"""The last invented date of which there is an age, in days since 1970."""


@dataclass(frozen=True)
class Form:
    """What a model takes: sizes, and for a site's own data the columns of its tables.

    Args:
        shape: the sizes that the network was built for.
        encoding: the structure encodings.
        relations: the edge types, for link prediction; else empty.
        fixed: number of nodes of the types that have no features, by name.
        kinds: number of edge types, for networks that read them.
        weighted: whether links have weights.
        schema: of the site's own tables; None for built-in data.
        preparation: of the columns in the schema.
        tables: files and columns of the site's tables, if they are available.
        target: what is predicted.
        scale: the means and deviations of numbers [2, outputs], if they have any.
        unit: that of numbers.
        decision: how classes follow from probabilities, if that was chosen.
    """

    shape: GraphShape | NodeShape | LinkShape
    encoding: StructureEncoding
    relations: Sequence[EdgeType] = ()
    fixed: Mapping[str, int] = field(default_factory=dict)
    kinds: int = 1
    weighted: bool = False
    schema: Schema | None = None
    preparation: Preparation | None = None
    tables: Mapping[str, Any] | None = None
    target: TargetKind = "class"
    scale: Tensor | None = None
    unit: str = ""
    decision: Decision | None = None

    @property
    def classes(self) -> list[str]:
        """The names of the classes, or of the numbers or labels that are predicted.

        They are 0, 1, … for built-in data; links have none.
        """
        if isinstance(self.shape, LinkShape):
            return []
        return [*self.schema.classes] if self.schema else [*map(str, range(self.shape.classes))]

    @property
    def has_prepared_columns(self) -> bool:
        return self.preparation is not None and bool(self.preparation.types)

    @property
    def has_prepared_features(self) -> bool:
        return self.preparation is not None and bool({*self.preparation.types} - {*OF_LABELS})


@dataclass(frozen=True)
class Example:
    """A graph, the pairs to score in it, and the tables from which its features are prepared."""

    graph: Graph
    pairs: Links | None
    tables: dict[str, Table]


def invented(form: Form, nodes: int, seed: int) -> Example:
    """Draw an example with about this number of nodes, of each type if there are several.

    Where all graphs have the same nodes, it has two or three graphs.
    """
    draw = np.random.default_rng(seed)
    if isinstance(form.shape, LinkShape):
        return _links(form, nodes, draw)
    if isinstance(form.shape, GraphShape) and form.shape.nodes:
        nodes = form.shape.nodes * (2 + nodes % 2)
    node_type = next(iter(form.schema.nodes)) if form.schema else "node"
    features, tables = _features(form, node_type, form.shape.features, nodes, draw)
    ends = _ends(nodes, draw)
    if isinstance(form.shape, NodeShape):
        left, right = ends
        graph = NodeGraph(
            features=features,
            labels=torch.zeros(nodes, dtype=torch.int64),
            classes=form.shape.classes,
            left=left.to(torch.int32),
            right=right.to(torch.int32),
            kinds=torch.from_numpy(draw.integers(form.kinds, size=left.numel(), dtype=np.uint8)),
            kind_names=tuple(map(str, range(form.kinds))),
            trained=torch.zeros(nodes, dtype=torch.bool),
            link_values=_values(form, left.numel(), draw),
        )
        if isinstance(form.shape, EdgeShape):
            return Example(_asking(graph, form.shape, draw), None, tables)
        return Example(graph, None, tables)
    return Example(_block(form, features, ends, draw), None, tables)


def _asking(graph: NodeGraph, shape: EdgeShape, draw: np.random.Generator) -> EdgeGraph:
    """The graph with edges to classify, half as many as its nodes."""
    count = graph.nodes // 2
    ends = torch.from_numpy(draw.integers(graph.nodes, size=(2, count)))
    own = draw.normal(size=(count, shape.asked_width)).astype(np.float32)
    attributes = torch.from_numpy(own) if shape.asked_width else None
    asked = LabelledEdges(ends, attributes, shape.ordered)
    return EdgeGraph.of(graph, asked, torch.zeros(count, dtype=torch.int64))


def _ends(nodes: int, draw: np.random.Generator) -> Tensor:  # [2, links]
    """Links between neighbours in a row and some others, the smaller node first, each once."""
    row = np.stack([np.arange(nodes - 2), np.arange(1, nodes - 1)])  # the last node has no links
    others = np.sort(draw.integers(nodes - 1, size=(2, nodes)), axis=0)
    ends = torch.from_numpy(np.concatenate([row, others], axis=1))
    once: Tensor = torch.unique(ends[:, ends[0] < ends[1]], dim=1)
    return once


def _values(form: Form, links: int, draw: np.random.Generator) -> LinkValues:
    """What links carry, of the widths that the network reads."""
    assert not isinstance(form.shape, LinkShape)
    width, directed = form.shape.link_width, form.shape.directed
    attributes = draw.normal(size=(links, width)).astype(np.float32) if width else None
    weights = draw.uniform(size=links).astype(np.float32) if form.weighted else None
    ways = draw.choice([-1, 1], size=links).astype(np.int8) if directed else None
    given = (None if one is None else torch.from_numpy(one) for one in (attributes, weights, ways))
    return LinkValues(*given)


def _block(form: Form, features: Tensor, ends: Tensor, draw: np.random.Generator) -> GraphBlock:
    """Two graphs, or as many as the nodes are for; links between them are dropped."""
    assert isinstance(form.shape, GraphShape)
    nodes, aligned = features.size(0), form.shape.nodes
    starts = torch.tensor([0, nodes // 3, nodes])
    if aligned:
        starts = torch.arange(0, nodes + 1, aligned)
    graph = torch.bucketize(ends.contiguous(), starts, right=True)
    ends = ends[:, graph[0] == graph[1]]
    block = block_with_values(
        ends,
        _values(form, ends.size(1), draw),
        starts,
        features=features,
        feature_width=features.size(1),
        labels=torch.zeros(starts.numel() - 1, dtype=torch.int64),
    )
    return form.encoding.added_to(block)


def _links(form: Form, nodes: int, draw: np.random.Generator) -> Example:
    assert isinstance(form.shape, LinkShape)
    types: list[NodeType] = []
    tables: dict[str, Table] = {}
    for name, width in form.shape.types:
        if name in form.fixed:
            types.append(NodeType(name, form.fixed[name]))
            continue
        features, table = _features(form, name, width, nodes, draw)
        types.append(NodeType(name, nodes, features))
        tables |= table
    names = [kind.name for kind in types]
    starts = [0, *np.cumsum([kind.nodes for kind in types]).tolist()]
    links: list[Links] = []
    pairs: list[Links] = []
    relations = []
    for number, (head, name, tail) in enumerate(form.relations):
        one, other = names.index(head), names.index(tail)
        relations.append(Relation(name, one, other))
        for found, count in ((links, nodes), (pairs, nodes // 2)):
            heads, tails = (
                torch.from_numpy(draw.integers(starts[t], starts[t + 1], size=count))
                for t in (one, other)
            )
            found.append(Links(heads, tails, torch.full((count,), number)))
    joined = Links.joined(links)
    learned = torch.ones(len(joined), dtype=torch.bool)
    graph = HeteroGraph(tuple(types), tuple(relations), joined, learned)
    return Example(graph, Links.joined(pairs), tables)


def _features(
    form: Form, node_type: str, width: int, nodes: int, draw: np.random.Generator
) -> tuple[Tensor, dict[str, Table]]:
    """The features of nodes; for a site's own data, prepared from an invented table."""
    if form.schema is None:
        return torch.from_numpy(draw.normal(size=(nodes, width)).astype(np.float32)), {}
    ids = {"id": [f"{node_type}-{number}" for number in range(nodes)]}
    kinds = form.schema.columns.get(node_type)
    if kinds is None or form.preparation is None:
        names = form.schema.nodes[node_type]
        cells = {name: [f"{v:.4f}" for v in draw.normal(size=nodes)] for name in names}
        columns = [np.array(column, dtype=np.float32) for column in cells.values()]
        values = np.stack(columns, axis=1) if columns else np.ones((nodes, 1), np.float32)
        return torch.from_numpy(values), {node_type: {**ids, **cells}}
    prepared = {name: form.preparation.types[node_type][name] for name in kinds}
    cells = {name: _cells(column, nodes, draw) for name, column in prepared.items()}
    parts = {name: ColumnPart(kind=kind, missing_values=()) for name, kind in kinds.items()}
    read = {
        name: parsed(part, np.array(cells[name], dtype=object), _refuse)
        for name, part in parts.items()
    }
    table = ColumnValues(parts, read, nodes).as_of()
    features = form.preparation.features(node_type, table)
    return features, {node_type: {**ids, **cells}}


def _refuse(row: int, text: str) -> None:
    raise AssertionError(f"the invented cell in row {row}: {text}")


def _cells(column: PreparedColumn, nodes: int, draw: np.random.Generator) -> list[str]:
    """Cells as they might be in a table; the first one is missing, if that is allowed."""
    if column.kind == "category":
        cells = draw.choice([*column.categories, "another category"], size=nodes).tolist()
    elif column.kind == "flag":
        cells = draw.choice(["yes", "no"], size=nodes).tolist()
    else:
        values = column.mean + column.scale * draw.normal(size=nodes)
        values = _LATEST - np.abs(values) if column.kind == "age" else values
        is_date = column.kind in ("date", "age")
        cells = [_date(v) if is_date else f"{v:.6g}" for v in values.tolist()]
    return ["", *cells[1:]] if column.marked else cells


def _date(days: float) -> str:
    return f"{EPOCH + timedelta(days=round(days)):%Y-%m-%d}"
