"""Times of nodes, links and graphs from tables and tensors, and what is computed from them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ramet.data.own.columns import ColumnPart, Values, latest_date
from ramet.data.own.hints import TIME_HINT
from ramet.data.own.problems import shown
from ramet.data.own.tables import Table

_TIME = ColumnPart(kind="date")


@dataclass(frozen=True)
class TimeReader:
    """Reads columns with times.

    Args:
        past: whether times after today are problems.
    """

    past: bool

    def read(self, table: Table, column: str, needed: Tensor | None = None) -> Tensor:
        """[rows] days since 1970, NaN where there is none.

        ``needed`` says which rows must have one; by default all.
        """
        times = replace(table, place="").values({column: _TIME}).values[column]
        given = [text.lower() for text in table.texts(column)]
        latest = latest_date()
        for row in np.flatnonzero(np.isnan(times)).tolist():
            if given[row] in _TIME.markers and (needed is None or bool(needed[row])):
                table.report(row, column, f"the time is missing. {TIME_HINT}")
        for row in np.flatnonzero(times > latest).tolist() if self.past else ():
            text = f"{shown(table.texts(column)[row])} is after today. Correct it"
            table.report(row, column, f"{text}, or leave the row out")
        return torch.from_numpy(times)


def ages(times: Tensor, groups: Tensor | None = None, present: Tensor | None = None) -> Values:
    """[links] the days from each link to the last one, or to the last one of its group.

    ``present``: which links count as the last one; None for all.
    """
    if groups is None:
        among = times if present is None else times[present]
        last = among.max() if among.numel() else times.new_zeros(())
        return (last - times).numpy()
    last = torch.full((int(groups.max()) + 1,), -torch.inf, dtype=times.dtype)
    return (last.index_reduce(0, groups, times, "amax")[groups] - times).numpy()


def link_times(
    own: Tensor | None, ends: Tensor, nodes: tuple[Tensor | None, Tensor | None]
) -> Tensor | None:
    """When links come into being: at their own time, without one at the later one of their ends.

    A node without a time has always been there. None if all links have.
    """
    if own is not None:
        return own
    given = [times[one] for times, one in zip(nodes, ends, strict=True) if times is not None]
    always = [time.nan_to_num(nan=-torch.inf) for time in given]
    return torch.stack(always).amax(dim=0) if always else None


def times_of_samples(times: Mapping[str, Tensor]) -> Tensor:
    """The times of all samples, by type in the order of their names."""
    return torch.cat([times[name] for name in sorted(times)])
