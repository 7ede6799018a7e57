"""Columns of nodes that sum up their links: by edge type, direction, column and window of time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from torch import Tensor

from ramet.data.own.columns import ColumnPart, Values
from ramet.data.own.parts import EdgePart

_INCOMING, _OUTGOING = "in", "out"


@dataclass(frozen=True)
class _Column:
    """One aggregate of the links of a node."""

    name: str
    how: str
    of: str | None
    """The column of links; None to count them."""
    category: str | None
    """Which links of that column count; None for all."""
    ways: tuple[str, ...]
    window: float | None
    """In days before the last link; None for all links."""

    @property
    def part(self) -> ColumnPart:
        """Nodes without links have no mean, but a sum and a count of 0."""
        return ColumnPart(kind="number", missing="mark" if self.how == "mean" else "refuse")


def _columns(name: str, part: EdgePart) -> Iterator[_Column]:
    ways = [(_INCOMING,), (_OUTGOING,)] if part.directed else [(_INCOMING, _OUTGOING)]
    for way in ways:
        start = f"{name} {way[0]}" if part.directed else name
        for window in part.windows or (None,):
            end = "" if window is None else f" {window:g} days"
            for how in part.aggregate:
                if how != "count":
                    for of in part.summed:
                        yield _Column(f"{start} {of} {how}{end}", how, of, None, way, window)
                    continue
                yield _Column(f"{start} count{end}", how, None, None, way, window)
                for of, one in part.prepared.items():
                    for category in one.categories:
                        text = f"{start} {of}={category} count{end}"
                        yield _Column(text, how, of, category, way, window)


def aggregate_parts(name: str, part: EdgePart) -> dict[str, ColumnPart]:
    """The columns that edges of a type add to the nodes at their ends."""
    return {column.name: column.part for column in _columns(name, part)}


def aggregated(
    name: str,
    part: EdgePart,
    ends: Tensor,
    nodes: int,
    values: Mapping[str, Values],
) -> dict[str, Values]:
    """The aggregates of each node, from the columns of its links.

    Every row of the table counts, also one that links a node to itself.
    """
    sources, targets = ends.numpy()
    of_way = {_OUTGOING: sources, _INCOMING: targets}
    times = None if part.time is None else values[part.time]
    found = {}
    for column in _columns(name, part):
        rows = _rows(column, values, times, sources.size)
        own = np.concatenate([of_way[way][rows] for way in column.ways])
        numbers = None if column.how == "count" else values[str(column.of)][rows]
        found[column.name] = _total(column, own, numbers, nodes)
    return found


def totals(
    ends: Values, numbers: Mapping[str, Values], nodes: int, directed: bool
) -> dict[str, Values]:
    """Sums, means and counts of each node over all links, by what they are."""
    sources, targets = ends
    of_way = {f"{_OUTGOING} ": sources, f"{_INCOMING} ": targets} if directed else {}
    found: dict[str, Values] = {}
    for way, own in {**of_way, "": np.concatenate([sources, targets])}.items():
        counts = np.bincount(own, minlength=nodes)
        found[f"{way}count"] = counts.astype(np.float64)
        for name, values in numbers.items():
            sums = np.bincount(own, np.resize(np.nan_to_num(values), own.size), nodes)
            found[f"{way}sum of {name}"] = sums
            found[f"{way}mean of {name}"] = sums / np.maximum(counts, 1)
    return found


def _rows(
    column: _Column, values: Mapping[str, Values], times: Values | None, count: int
) -> Values:
    """The rows that the column is about."""
    chosen = np.ones(count, dtype=bool)
    if column.category is not None:
        chosen &= values[str(column.of)] == column.category
    if column.window is not None and times is not None and count:
        chosen &= times > times.max() - column.window
    return np.flatnonzero(chosen)


def _total(column: _Column, ends: Values, numbers: Values | None, nodes: int) -> Values:
    if numbers is None:
        return np.bincount(ends, minlength=nodes).astype(np.float64)
    given = np.tile(numbers.astype(np.float64), len(column.ways))
    present = ~np.isnan(given)
    sums = np.bincount(ends[present], weights=given[present], minlength=nodes)
    if column.how == "sum":
        return sums
    counts = np.bincount(ends[present], minlength=nodes)
    return np.where(counts > 0, sums / np.maximum(counts, 1), np.nan)
