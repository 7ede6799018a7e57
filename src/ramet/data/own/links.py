"""Links of a graph from the edges of a site's files.

Edges that carry nothing are links once, however often and in whichever direction they are listed.
An edge that carries something is a link of its own, so that several transfers between the same two
accounts stay apart. Edges of a node to itself are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from ramet.data.graphs.link_values import NO_VALUES, LinkValues
from ramet.data.own.content import Edges
from ramet.data.own.parts import EdgePart


@dataclass(frozen=True)
class LinksOfType:
    """Links with the smaller node first, sorted by their ends."""

    ends: Tensor  # [2, links]
    values: LinkValues


def links_of(edges: Edges, part: EdgePart, nodes: int) -> LinksOfType:
    """The links of an edge type."""
    if edges.is_plain and not part.directed:
        return LinksOfType(undirected(edges.ends, nodes), NO_VALUES)
    ends, carried = edges.ends, LinkValues(edges.attributes, edges.weights, None, edges.times)
    kept = (ends[0] != ends[1]).nonzero().flatten()
    if edges.is_plain:
        kept = _first_of_equals(ends[:, kept], kept, nodes)
    elif not part.directed:
        kept = _listed_once(ends[:, kept], carried[kept], kept)
    left, right = ends[:, kept].amin(dim=0), ends[:, kept].amax(dim=0)
    order = torch.argsort(left * nodes + right, stable=True)
    kept = kept[order]
    ways = None
    if part.directed:
        ways = torch.where(ends[0, kept] < ends[1, kept], 1, -1).to(torch.int8)
    values = carried[kept]
    return LinksOfType(
        torch.stack([left, right])[:, order],
        LinkValues(values.attributes, values.weights, ways, values.times),
    )


def undirected(ends: Tensor, nodes: int) -> Tensor:
    """Drop self loops and duplicates, and put the smaller node first."""
    left, right = ends.amin(dim=0), ends.amax(dim=0)
    keys = torch.unique((left * nodes + right)[left != right])
    return torch.stack([keys // max(nodes, 1), keys % max(nodes, 1)])


def _first_of_equals(ends: Tensor, rows: Tensor, nodes: int) -> Tensor:
    """The rows without those that repeat another in the same direction."""
    _, first = np.unique((ends[0] * nodes + ends[1]).numpy(), return_index=True)
    return rows[torch.from_numpy(np.sort(first))]


def _listed_once(ends: Tensor, carried: LinkValues, rows: Tensor) -> Tensor:
    """All rows; of PyG's undirected links, which are there in both directions, half of them."""
    forward = ends[0] < ends[1]
    if not rows.numel() or 2 * int(forward.sum()) != rows.numel():
        return rows
    columns = [value.reshape(rows.numel(), -1) for value in carried.tensors().values()]
    table = torch.cat([ends.T.double(), *(column.double() for column in columns)], dim=1).numpy()
    one, other = table[forward.numpy()], table[~forward.numpy()]
    other[:, :2] = other[:, [1, 0]].copy()
    one, other = (rows[np.lexsort(rows.T[::-1])] for rows in (one, other))
    return rows[forward] if np.array_equal(one, other) else rows


def side_by_side(links: Sequence[LinksOfType]) -> LinkValues:
    """The values of all types: each type has columns of its own, which are 0 for the others."""
    given = [of_type.values for of_type in links]
    width = sum(values.width for values in given)
    directed = any(values.directed for values in given)
    weighted, timed = (
        any(getattr(values, name) is not None for values in given) for name in ("weights", "times")
    )
    parts, before = [], 0
    for of_type in links:
        own, count = of_type.values, of_type.ends.size(1)
        attributes = torch.zeros((count, width))
        if own.attributes is not None:
            attributes[:, before : before + own.width] = own.attributes
        before += own.width
        parts.append(
            LinkValues(
                attributes=attributes if width else None,
                weights=_or(own.weights, torch.ones(count)) if weighted else None,
                directions=_or(own.directions, torch.zeros(count, dtype=torch.int8))
                if directed
                else None,
                times=_or(own.times, torch.full((count,), torch.nan, dtype=torch.float64))
                if timed
                else None,
            )
        )
    joined = LinkValues.joined(parts)
    return joined or NO_VALUES


def _or(value: Tensor | None, neutral: Tensor) -> Tensor:
    return neutral if value is None else value
