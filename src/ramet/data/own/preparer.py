"""A site's part in preparing columns: its own sums, and features as agreed or as it would alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import fsum

import numpy as np
from torch import Tensor

from ramet.data.own.columns import ColumnPart, ColumnValues, Values
from ramet.data.own.preparation import ColumnSums, Preparation, SiteSums, agreed


@dataclass(frozen=True)
class Preparer:
    """Prepares a site's columns as agreed; without an agreement, as this site would alone."""

    smallest: int
    agreement: Preparation | None
    columns: dict[str, ColumnValues] = field(default_factory=dict)
    """The columns that were prepared, by node type."""
    counted: Mapping[str, Values] = field(default_factory=dict)
    """Which rows are in the sums, by node type; all of the others."""

    def features(self, node_type: str, columns: ColumnValues) -> Tensor:  # [rows, features]
        self.columns[node_type] = columns
        return self.preparation(node_type).features(node_type, columns)

    def preparation(self, node_type: str) -> Preparation:
        return self.agreement or agreed({"": self.sums(node_type)})

    def sums(self, *node_types: str) -> SiteSums:
        """What the site tells about the columns of these types."""
        return SiteSums(
            types={name: _column_sums(self.told(name), self.smallest) for name in node_types}
        )

    def told(self, node_type: str) -> ColumnValues:
        """The rows of a type that are in the sums."""
        columns, rows = self.columns[node_type], self.counted.get(node_type)
        return columns if rows is None else columns.only(rows)


def _column_sums(columns: ColumnValues, smallest: int) -> dict[str, ColumnSums]:
    """What the site tells about each of its columns."""
    return {
        name: _sums(part, columns.values[name], smallest) for name, part in columns.parts.items()
    }


def _sums(part: ColumnPart, values: Values, smallest: int) -> ColumnSums:
    nothing = ColumnSums(kind=part.kind, marked=part.missing == "mark")
    if part.kind == "category":
        if part.categories:
            return nothing.model_copy(update={"categories": part.categories, "fixed": True})
        counts = Counter(value for value in values.tolist() if value)
        frequent = tuple(sorted(name for name, count in counts.items() if count >= smallest))
        return nothing.model_copy(update={"categories": frequent})
    present = values[~np.isnan(values)]
    if part.kind == "flag" or present.size < smallest:
        return nothing
    total = fsum(present)
    squares = fsum((present - total / present.size) ** 2)
    return nothing.model_copy(
        update={"count": int(present.size), "total": total, "squares": squares}
    )
