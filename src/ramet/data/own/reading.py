"""Rows of tables and tensors as features of nodes, and as edges with what they carry."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ramet.data.own.columns import ColumnValues, absent_values
from ramet.data.own.content import Edges, no_edges
from ramet.data.own.parts import EdgePart, NodePart
from ramet.data.own.preparer import Preparer
from ramet.data.own.problems import Problems
from ramet.data.own.schema import OF_EDGES
from ramet.data.own.tables import Table
from ramet.data.own.tensors import Tensors
from ramet.data.own.times import TimeReader


def features_of(
    table: Table,
    node_type: str,
    part: NodePart,
    preparer: Preparer,
    graphs: Tensor | None = None,
) -> Tensor:
    """The features of the nodes in a table, of which each may be in another graph."""
    if not part.columns:
        return table.numbers(part.names)
    groups = None if graphs is None else graphs.numpy().clip(min=0)  # -1 is reported already
    return preparer.features(node_type, table.values(part.prepared).as_of(groups=groups))


def edges_of(
    table: Table,
    name: str,
    part: EdgePart,
    ends: Tensor,
    parts: Tensor | None,
    preparer: Preparer,
    reader: TimeReader,
) -> Edges:
    """The edges in a table, with what they carry."""
    table = replace(table, place=f"[{OF_EDGES}{name}.columns]")
    attributes, values = None, ColumnValues({}, {}, len(table))
    if part.columns or part.computed:
        values = table.values(part.read)
        preparer.columns[f"{OF_EDGES}{name}"] = values
        if part.read and not part.computed:
            attributes = preparer.features(f"{OF_EDGES}{name}", values)
    elif part.names:
        attributes = table.numbers(part.names)
        columns = zip(part.names, attributes.T.numpy(), strict=True)
        values = replace(values, values=dict(columns))
    weights = None if part.weight is None else table.weights(part.weight)
    times = None if part.time is None else reader.read(table, part.time)
    columns_read = dict(values.values)
    if weights is not None:
        columns_read[str(part.weight)] = weights.numpy()
    if times is not None:
        columns_read[str(part.time)] = times.numpy()
    return Edges(
        ends,
        parts,
        attributes,
        weights,
        times,
        columns_read if part.aggregate else {},
    )


def absent_edges(name: str, part: EdgePart, preparer: Preparer) -> Edges:
    """No edges, which carry what others of their type do."""
    absent = {column: absent_values(one, 0) for column, one in part.prepared.items()}
    attributes, none = torch.empty((0, len(part.names))), torch.empty(0)
    if part.prepared:
        values = ColumnValues(part.prepared, absent, 0)
        attributes = preparer.features(f"{OF_EDGES}{name}", values)
    return Edges(
        no_edges(),
        attributes=attributes if part.names else None,
        weights=none if part.weight else None,
        times=none.double() if part.time else None,
    )


def edges_in(tensors: Tensors, store: str, part: EdgePart, ends: Tensor) -> Edges:
    """The edges in tensors whose names start with ``store``, with what they carry."""
    count = ends.size(1)
    return Edges(
        ends,
        None,
        tensors.attributes(store, part.names, count),
        tensors.weights(store, part.weight, count),
        tensors.times(store, part.time, count),
    )


def repeated(
    ends: Tensor,
    same_type: bool,
    rows: Sequence[int],
    file: str,
    column: str,
    problems: Problems,
) -> None:
    """Report repeated edges, which could be both in training and in test, and self loops."""
    seen: dict[tuple[int, int], int] = {}
    for row, (one, other) in zip(rows, ends.T.tolist(), strict=True):
        if min(one, other) < 0:
            continue  # reported already
        if same_type and one == other:
            problems.add(file, "the edge is a self loop", row, column)
            continue
        key = (min(one, other), max(one, other)) if same_type else (one, other)
        first = seen.setdefault(key, row)
        if first != row:
            problems.add(file, f"the edge already appears in row {first}", row, column)
