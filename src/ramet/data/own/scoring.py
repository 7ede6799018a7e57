"""Which samples of new data are scored: those whose class is known by now."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ramet.data.own.content import Content, Edges, Graphs, Nodes, are_known
from ramet.data.own.tables import NO_PART
from ramet.data.splits import PARTS

_SCORED = PARTS.index("test")


def scored_parts(content: Content, of_links: Tensor | None) -> Tensor | None:  # [samples]
    """The part of each sample: test if it is new and has a class, and otherwise none.

    ``of_links``: that of links, which are there or not.
    """
    rows = content.classified
    if rows is None or rows.labels is None:
        return of_links
    is_scored = are_known(rows.labels)
    is_scored[_own_rows(rows) :] = False
    return torch.where(is_scored, _SCORED, NO_PART)


def unlabelled(content: Content, consequence: str) -> Iterator[str]:
    """In words, how many rows have no class or number, if some have none, and what follows."""
    rows = content.classified
    if rows is None or rows.labels is None:
        return
    own = _own_rows(rows)
    lacking = own - int(are_known(rows.labels[:own]).sum())
    if lacking:
        yield f"{lacking:,} of {own:,} rows have no label; {consequence}"


def _own_rows(rows: Nodes | Edges | Graphs) -> int:
    """How many rows there are without those of an earlier period, and without stubs."""
    if isinstance(rows, Graphs):
        return len(rows.labels)
    if rows.new is not None:
        return rows.new
    return rows.count - (rows.stubs if isinstance(rows, Nodes) else 0)


def scored_times(content: Content) -> Tensor | None:  # [samples]
    """The times of the samples, by which those of a run that is split by time are known."""
    rows = content.classified
    if rows is not None:
        return rows.times
    times = [content.edges[name].times for name in sorted(content.edges)]
    known = [one for one in times if one is not None]
    return torch.cat(known) if len(known) == len(times) else None
