"""The range of each column in training, and how new data differs from it.

Ranges hold the smallest and the largest value of a column, so they stay at the site.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import timedelta
from typing import TypeAlias

import numpy as np
import torch
from torch import Tensor

from ramet.data.graphs.graph_block import GraphBlock
from ramet.data.graphs.hetero_graph import HeteroGraph
from ramet.data.graphs.node_graph import NodeGraph
from ramet.data.own.columns import EPOCH, ColumnValues, Values
from ramet.data.own.preparation import Preparation
from ramet.data.own.problems import shown
from ramet.data.own.schema import shown_column
from ramet.data.own.site import Site
from ramet.errors import RametError

Range: TypeAlias = tuple[float, float] | None
"""The smallest and the largest value; None for categories, flags and columns without values."""
Ranges: TypeAlias = dict[str, dict[str, Range]]
"""Ranges by node type and column, of the columns that the site has."""
_MOST_SHOWN = 3


def ranges(site: Site) -> Ranges:
    """The ranges of a site's columns and features."""
    found: Ranges = {
        node_type: {
            name: _range(columns.values[name]) if part.kind in ("number", "date", "age") else None
            for name, part in columns.parts.items()
            if not part.absent
        }
        for node_type, columns in site.columns.items()
    }
    for node_type, names, values in plain_features(site):
        pairs = zip(names, values.T, strict=True)
        found[node_type] = {name: _range(column.numpy()) for name, column in pairs}
    return found


def check_scales(site: Site, preparation: Preparation) -> None:
    """Refuse, before training, an agreed scale that does not fit the site's own column.

    The error goes to the coordinator, so it has no values.
    """
    for node_type, columns in site.sums.types.items():
        for name, sums in columns.items():
            prepared = preparation.types[node_type][name]
            may_differ = not sums.count or site.columns[node_type].parts[name].unlike
            if not may_differ and sums.moments.is_unlike(prepared.mean, prepared.scale):
                raise RametError(
                    "this site refuses the agreed scale of the column "
                    f"{shown_column(node_type, name)}, which is far from its own. Check the "
                    "column's unit at all sites. If they really differ so much, declare it here "
                    "with unlike = true."
                )


def novelties(site: Site, seen: Ranges, preparation: Preparation) -> list[str]:
    """How a site's new rows differ from what its model has seen, each with a number of rows."""
    own = site.own_rows.count
    texts = [
        text
        for node_type, columns in site.columns.items()
        for text in _column_novelties(
            node_type,
            columns.first(own.get(node_type, columns.rows)),
            seen.get(node_type, {}),
            preparation,
        )
    ]
    for node_type, names, values in plain_features(site):
        for name, column in zip(names, values.T, strict=True):
            known = seen.get(node_type, {}).get(name)
            new = column.numpy()[: own.get(node_type)]
            texts += _outside(f"{node_type}: {name}", new, known, "number")
    return texts + [
        f"{what}: no links in {_of(alone, total)}. Check that the ids of the edges match"
        for what, (alone, total) in unlinked(site).items()
    ]


def _column_novelties(
    node_type: str, columns: ColumnValues, seen: Mapping[str, Range], preparation: Preparation
) -> Iterator[str]:
    for name, part in columns.parts.items():
        what, values = f"{node_type}: {name}", columns.values[name]
        if part.absent:
            if name in seen and columns.rows:
                yield f"{what} is not in the data, so it counts as missing in {columns.rows:,} rows"
        elif part.kind == "category":
            categories = preparation.types[node_type][name].categories
            yield from _unknown(what, values, categories)
        else:
            yield from _outside(what, values, seen.get(name), part.kind)


def _outside(what: str, values: Values, seen: Range, kind: str) -> Iterator[str]:
    if seen is None:
        return
    low, high = seen
    count = int(((values < low) | (values > high)).sum())
    if count:
        within = f"{_value(low, kind)} to {_value(high, kind)}"
        yield f"{what} is outside the range of training, {within}, in {_of(count, values.size)}"


def _unknown(what: str, values: Values, categories: tuple[str, ...]) -> Iterator[str]:
    names, counts = np.unique(values.astype(str), return_counts=True)
    new = (names != "") & ~np.isin(names, categories)
    if new.any():
        listed = [shown(str(name)) for name in names[new][:_MOST_SHOWN]]
        more = ", …" if new.sum() > _MOST_SHOWN else ""
        rows = _of(int(counts[new].sum()), values.size)
        yield f"{what} has categories that the model does not know in {rows}: " + (
            ", ".join(listed) + more
        )


def unlinked(site: Site) -> dict[str, tuple[int, int]]:
    """By node type, or for the graphs: how many have no links, if any has none, and of how many."""
    graph = site.later.get("test", site.graph)
    if isinstance(graph, GraphBlock):
        linked = torch.zeros(graph.graphs).index_add(
            0, torch.repeat_interleave(graph.node_starts.diff()), graph.degrees.float()
        )
        counts = {"graphs": (linked == 0, graph.graphs)}
    elif isinstance(graph, NodeGraph):
        counts = {next(iter(site.schema.nodes)): (graph.degrees == 0, graph.nodes)}
    else:
        degrees, starts = graph.whole.degrees, graph.type_starts
        counts = {
            kind.name: (degrees[starts[index] : starts[index + 1]] == 0, kind.nodes)
            for index, kind in enumerate(graph.types)
        }
    return {what: (int(none.sum()), total) for what, (none, total) in counts.items() if none.any()}


def plain_features(site: Site) -> Iterator[tuple[str, tuple[str, ...], Tensor]]:
    """The node types whose features are given as numbers, with names and values."""
    graph = site.graph
    if isinstance(graph, HeteroGraph):
        by_type = {kind.name: kind.features for kind in graph.types}
    else:
        by_type = {next(iter(site.schema.nodes)): graph.features}
    for node_type, values in by_type.items():
        names = site.schema.nodes[node_type]
        if values is not None and names and node_type not in site.columns:
            yield node_type, names, values


def _range(values: Values) -> Range:
    present = values[~np.isnan(values)]
    return (float(present.min()), float(present.max())) if present.size else None


def _value(value: float, kind: str) -> str:
    return f"{EPOCH + timedelta(days=value):%Y-%m-%d}" if kind == "date" else f"{value:g}"


def _of(count: int, total: int) -> str:
    return f"{count:,} of {total:,} rows"
