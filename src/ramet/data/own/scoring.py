"""Which samples of new data are scored: those whose class is known by now."""

from __future__ import annotations

import torch
from torch import Tensor

from ramet.data.own.content import Content, Graphs, are_known
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
    if not isinstance(rows, Graphs) and rows.new is not None:
        is_scored &= torch.arange(rows.count) < rows.new
    return torch.where(is_scored, _SCORED, NO_PART)


def scored_times(content: Content) -> Tensor | None:  # [samples]
    """The times of the samples, by which those of a run that is split by time are known."""
    rows = content.classified
    if rows is not None:
        return rows.times
    times = [content.edges[name].times for name in sorted(content.edges)]
    known = [one for one in times if one is not None]
    return torch.cat(known) if len(known) == len(times) else None
