"""What the columns of a table mean, and their cells as values."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import cached_property
from typing import Annotated, Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict

from ramet.data.own.problems import shown
from ramet.data.own.schema import Kind, Texts

Values: TypeAlias = NDArray[Any]
"""Numbers, NaN if missing; of a category texts, empty if missing."""
Report: TypeAlias = Callable[[int, str], None]
"""Reports a problem with a row."""
MISSING = ("", "na", "n/a", "nan", "nat", "none", "null", "<na>")
"""Cells that count as missing, in any case, unless a column says otherwise."""
_FLAGS = {"true": 1.0, "yes": 1.0, "y": 1.0, "t": 1.0, "1": 1.0, "1.0": 1.0} | {
    "false": 0.0, "no": 0.0, "n": 0.0, "f": 0.0, "0": 0.0, "0.0": 0.0
}  # fmt: skip
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_SECONDS_PER_DAY = 86400.0


class ColumnPart(BaseModel):
    """A column of a table of nodes.

    ``missing``: replace missing cells by the mean, and add a feature that marks them, or refuse
    them. ``missing_values``: cells that count as missing, in any case; empty ones always do.
    ``absent``: other sites have the column, and this one does not. ``unlike``: the values may be
    far from those at other sites. ``categories``: a list that all sites know, so that none has to
    be agreed; none of them counts as missing.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Kind
    missing: Literal["mark", "refuse"] = "mark"
    missing_values: tuple[str, ...] = MISSING
    absent: bool = False
    unlike: bool = False
    categories: Texts = ()

    @cached_property
    def markers(self) -> frozenset[str]:
        """The cells that count as missing, in lower case."""
        listed = {name.lower() for name in self.categories}
        return frozenset({"", *({one.strip().lower() for one in self.missing_values} - listed)})


def _from_kind(given: Any) -> Any:
    return {"kind": given} if isinstance(given, str) else given


ColumnOrKind: TypeAlias = Annotated[ColumnPart, BeforeValidator(_from_kind)]


@dataclass(frozen=True)
class ColumnValues:
    """The values of a type's columns, by name, with a row for each node."""

    parts: Mapping[str, ColumnPart]
    values: Mapping[str, Values]
    rows: int
    markers: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """By column: how often a cell that is not empty counted as missing."""
    last: Mapping[str, Values] = field(default_factory=dict)
    """By column of ages, and row: the date that they count to."""

    def only(self, rows: NDArray[Any]) -> ColumnValues:
        """The same columns of some rows; ``rows`` says of each whether it is kept."""
        values = {name: of_all[rows] for name, of_all in self.values.items()}
        last = {name: of_all[rows] for name, of_all in self.last.items()}
        return ColumnValues(self.parts, values, int(rows.sum()), self.markers, last)

    def first(self, rows: int) -> ColumnValues:
        """The same columns of the first rows."""
        return self if rows == self.rows else self.only(np.arange(self.rows) < rows)

    def dates(self, name: str) -> Values:
        """The dates of a column of dates or ages."""
        values = self.values[name]
        return self.last[name] - values if name in self.last else values

    def as_of(self, end: float = np.inf, groups: Values | None = None) -> ColumnValues:
        """The same, with ages that count to the last date before ``end``, of the row's group."""
        ages = [name for name, part in self.parts.items() if part.kind == "age"]
        dates = {name: self.dates(name) for name in ages}
        last = {name: _last(one, end, groups) for name, one in dates.items()}
        values = {**self.values, **{name: last[name] - one for name, one in dates.items()}}
        return replace(self, values=values, last=last)


def _last(dates: Values, end: float, groups: Values | None) -> Values:
    """For each row the last date before ``end`` in its group; its own if there is none."""
    of_row = np.zeros(dates.size, dtype=np.int64) if groups is None else groups
    latest = np.full(int(of_row.max(initial=0)) + 1, -np.inf)
    np.maximum.at(latest, of_row, np.where(dates < end, dates, -np.inf))
    return np.where(np.isinf(latest[of_row]), dates, latest[of_row])


def found_markers(part: ColumnPart, cells: Values) -> dict[str, int]:
    """How often each text that is not empty counts as missing."""
    counts = Counter(str(cell).strip() for cell in cells.tolist())
    return {one: n for one, n in counts.items() if one and one.lower() in part.markers}


def absent_values(part: ColumnPart, rows: int) -> Values:
    """The values of a column that the site does not have."""
    return np.full(rows, "", object) if part.kind == "category" else np.full(rows, np.nan)


def parsed(part: ColumnPart, cells: Values, report: Report) -> Values:
    """Read the cells of a column; cells that do not fit its kind are reported, and missing."""
    texts = [str(cell).strip() for cell in cells.tolist()]
    missing = [text.lower() in part.markers for text in texts]
    if part.missing == "refuse":
        for row in np.flatnonzero(missing).tolist():
            report(row, "the value is missing, and this column refuses missing values")
    if part.kind == "category":
        known = set(part.categories)
        for row, text in enumerate(texts):
            if known and text not in known and not missing[row]:
                report(row, f"{shown(text)} is not one of the categories in the TOML")
        kept = zip(texts, missing, strict=True)
        return np.array(["" if gone else text for text, gone in kept], dtype=object)
    read = _READERS[part.kind]
    values = np.full(len(texts), np.nan)
    for row, text in enumerate(texts):
        if missing[row]:
            continue
        try:
            values[row] = read(text)
        except (ValueError, OverflowError):
            report(row, f"{shown(text)} {_EXPECTED[part.kind]}")
    return values


def _number(text: str) -> float:
    value = float(text)
    with np.errstate(over="ignore"):
        if not np.isfinite(np.float32(value)):
            raise ValueError(text)
    return value


def days_since_1970(text: str) -> float:
    """The days, in UTC, of a date or a moment in ISO format."""
    when = datetime.fromisoformat(text)
    when = when.replace(tzinfo=UTC) if when.tzinfo is None else when
    return (when - EPOCH).total_seconds() / _SECONDS_PER_DAY


def latest_date() -> float:
    """Days since 1970 until tomorrow, since a date without a time of day may be ahead of UTC."""
    return (datetime.now(UTC) - EPOCH).total_seconds() / _SECONDS_PER_DAY + 1


def _past_date(text: str) -> float:
    when = days_since_1970(text)
    if when > latest_date():
        raise ValueError(text)
    return when


def _flag(text: str) -> float:
    if text.lower() not in _FLAGS:
        raise ValueError(text)
    return _FLAGS[text.lower()]


_READERS: dict[str, Callable[[str], float]] = {
    "number": _number,
    "date": days_since_1970,
    "age": _past_date,
    "flag": _flag,
}
_EXPECTED = {
    "number": "is not a finite number. Write 3.5, without units or thousands separators",
    "date": "is not a date. Write 2026-03-31, or 2026-03-31T08:15",
    "age": "is not a date, or is after today. Write 2026-03-31, or 2026-03-31T08:15",
    "flag": "is not a flag. Write true or false, yes or no, 1 or 0",
}
