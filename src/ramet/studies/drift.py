"""Whether new rows are like those of before: column by column, and by the number of links.

Two things must hold before a column is said to have changed. A two-sample test finds that chance
does not explain the difference, with Holm's correction for all tests of the comparison; and the
population stability index (PSI), which does not grow with the number of rows, says that it matters.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ramet.data.own.columns import ColumnPart, ColumnValues, Values
from ramet.data.own.new_data import read_new_data
from ramet.data.own.observed import observed
from ramet.data.own.preparation import agreed
from ramet.data.own.schema import shown_column
from ramet.data.own.site import Site, read_site
from ramet.errors import RametError
from ramet.prediction import Source, Trained
from ramet.studies.gains import holm

LEVEL = 0.05
"""That of all tests together."""
SMALL, LARGE = 0.1, 0.25
"""PSI below the first is no change, and from the second a large one, as is usual in credit risk."""
_BINS = 10
_FEWEST = 1
"""Expected rows of a category, with fewer of which the chi-squared test is not exact enough."""
_UNSEEN = 0.5
"""Added to the rows of each bin, since PSI is infinite if one is empty."""


@dataclass(frozen=True)
class Difference:
    """How unlikely, and how large."""

    p_value: float
    """Adjusted for the number of tests."""
    psi: float

    @property
    def told(self) -> bool:
        return self.p_value < LEVEL and self.psi >= SMALL


@dataclass(frozen=True)
class Drifted:
    """A column, or a number of links, before and now."""

    name: str
    kind: str
    before: int
    """Rows."""
    now: int
    missing: tuple[float, float]
    """Their share, before and now."""
    values: Difference
    """Of the values that are there."""
    gaps: Difference
    """Of the share that is missing."""
    spans: tuple[tuple[float, float] | None, tuple[float, float] | None]
    """The smallest and the largest value, before and now; None for categories."""
    outside: float
    """The share of new values that are outside the range of before, or a new category."""
    categories: tuple[str, ...] = ()
    """Those that are new."""

    @property
    def changed(self) -> bool:
        return self.values.told or self.gaps.told

    @property
    def psi(self) -> float:
        return max(self.values.psi, self.gaps.psi)

    @property
    def verdict(self) -> str:
        """In words."""
        found = []
        if self.gaps.told:
            before, now = self.missing
            found.append(f"is missing {'in all rows' if now == 1 else _often(before, now)}")
        if self.values.told:
            found.append("has changed much" if self.values.psi >= LARGE else "has changed")
        return " and ".join(found) or "as before"

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "verdict": self.verdict, "changed": self.changed}


@dataclass(frozen=True)
class Drift:
    """New rows beside those of before."""

    site: str
    columns: tuple[Drifted, ...]
    """With the largest PSI first."""
    notes: tuple[str, ...] = ()

    @property
    def changed(self) -> tuple[Drifted, ...]:
        return tuple(one for one in self.columns if one.changed)

    @property
    def verdict(self) -> str:
        every, changed = len(self.columns), self.changed
        if not changed:
            return f"None of {every} columns has changed by more than chance and a PSI of {SMALL}"
        names = ", ".join(one.name for one in changed)
        dates = [one.name for one in changed if one.kind == "date"]
        text = f"{len(changed)} of {every} columns {'has' if len(changed) == 1 else 'have'} changed"
        moving = (
            f'. Dates move on: declare {", ".join(dates)} as "age", which counts the days to the '
            "last date"
        )
        return f"{text}: {names}{moving if dates else ''}"

    def to_json(self) -> dict[str, Any]:
        return {
            "site": self.site,
            "verdict": self.verdict,
            "changed": bool(self.changed),
            "columns": [one.to_json() for one in self.columns],
            "notes": [*self.notes],
        }


def drift_of(place: Path, source: Source, client: str | None = None) -> Drift:
    """Compare new data with that of a site's TOML file, or of the client of a finished run.

    Of a site that is split by time, the rows of training are compared with.
    """
    if place.is_file():
        before = read_site(place)
        schema, preparation = before.schema, agreed({"": before.sums})
        context = source.context or (place if source.new else None)
    else:
        trained = Trained.open(place)
        client = source.client_in(trained, client)
        before = read_site(source.context or trained.data_of(client))
        schema, preparation = trained.schema(client), trained.preparation
        context = source.context_in(trained, client)
    if source.path is None:
        raise RametError(
            "there is nothing to compare. Name the folder with the new rows with --new."
        )
    return drift(before, read_new_data(source.path, schema, preparation, context))


def drift(before: Site, now: Site) -> Drift:
    """Compare a site's new rows with those of before."""
    past, new = observed(before), observed(now)
    pairs = [
        (table, name, columns, new[table])
        for table, columns in past.items()
        if table in new and new[table].rows
        for name in columns.parts
        if not columns.parts[name].absent and name in new[table].parts
    ]
    tests = [test for table, name, one, other in pairs for test in _tests(name, one, other)]
    adjusted = holm([p_value for p_value, _ in tests])
    both = [
        Difference(1.0 if p is None else p, psi)
        for p, (_, psi) in zip(adjusted, tests, strict=True)
    ]
    columns = [
        _drifted(shown_column(table, name), (one, other), name, both[2 * n : 2 * n + 2])
        for n, (table, name, one, other) in enumerate(pairs)
    ]
    ordered = sorted(columns, key=lambda one: (not one.changed, -one.psi, one.name))
    return Drift(before.name, (*ordered,), now.remarks)


def _often(before: float, now: float) -> str:
    return "more often" if now > before else "less often"


def _tests(name: str, before: ColumnValues, now: ColumnValues) -> Iterator[tuple[float, float]]:
    """The p-value and the PSI of the values, and those of the share that is missing."""
    part = before.parts[name]
    values = [one.values[name] for one in (before, now)]
    gone = [_missing(of) for of in values]
    old, new = (of[~is_gone] for of, is_gone in zip(values, gone, strict=True))
    if part.kind in ("category", "flag"):
        yield _contingency(_frequent(_counts([old, new])))
    elif old.size and new.size:
        yield _distance(old, new)
    else:
        yield 1.0, 0.0
    yield _contingency(_frequent(_counts(gone)))


def _distance(old: Values, new: Values) -> tuple[float, float]:
    """The Kolmogorov-Smirnov test of two samples, and PSI over tenths of the first."""
    from scipy.stats import ks_2samp  # takes half a second to import

    edges = np.unique(np.quantile(old, np.linspace(0, 1, _BINS + 1)[1:-1]))
    bins = [np.bincount(np.searchsorted(edges, of), minlength=len(edges) + 1) for of in (old, new)]
    return float(ks_2samp(old, new).pvalue), _psi(np.stack(bins))


def _contingency(counts: NDArray[np.int64]) -> tuple[float, float]:
    """The chi-squared test that both rows have the same shares, and PSI."""
    from scipy.stats import chi2_contingency

    if counts.shape[1] < 2 or not counts.sum(axis=1).all():
        return 1.0, 0.0
    return float(chi2_contingency(counts).pvalue), _psi(counts)


def _psi(counts: NDArray[np.int64]) -> float:
    """The population stability index of two rows of counts: both relative entropies together."""
    from scipy.stats import entropy

    seen = counts[:, counts.any(axis=0)] + _UNSEEN
    return float(entropy(seen[0], seen[1]) + entropy(seen[1], seen[0]))


def _counts(samples: Sequence[Values]) -> NDArray[np.int64]:  # [2, categories]
    every = np.unique(np.concatenate([one.astype(str) for one in samples]))
    counted = [np.unique(one.astype(str), return_counts=True) for one in samples]
    counts = np.zeros((len(samples), len(every)), dtype=np.int64)
    for row, (names, number) in zip(counts, counted, strict=True):
        row[np.searchsorted(every, names)] = number
    return counts


def _frequent(counts: NDArray[np.int64]) -> NDArray[np.int64]:  # [2, fewer categories]
    """The counts, with categories joined that are too rare for the test."""
    total, rows = counts.sum(axis=0), counts.sum(axis=1)
    if not total.sum():
        return counts
    is_rare = total * rows.min() / total.sum() < _FEWEST
    rare, kept = counts[:, is_rare].sum(axis=1), counts[:, ~is_rare]
    if kept.shape[1] and rare.sum() * rows.min() / total.sum() < _FEWEST:
        kept[:, kept.sum(axis=0).argmin()] += rare
        return kept
    return np.column_stack([kept, rare]) if is_rare.any() else kept


def _missing(values: Values) -> NDArray[np.bool_]:
    found: NDArray[np.bool_] = values == "" if values.dtype == object else np.isnan(values)
    return found


def _drifted(
    shown: str,
    columns: tuple[ColumnValues, ColumnValues],
    name: str,
    differences: Sequence[Difference],
) -> Drifted:
    part: ColumnPart = columns[0].parts[name]
    values = [one.values[name] for one in columns]
    present = [of[~_missing(of)] for of in values]
    spans: list[tuple[float, float] | None] = [None, None]
    unknown: tuple[str, ...] = ()
    outside = 0.0
    if part.kind in ("category", "flag"):
        is_new = ~np.isin(present[1].astype(str), present[0].astype(str))
        unknown = tuple(np.unique(present[1][is_new].astype(str)).tolist())
    else:
        spans = [(float(of.min()), float(of.max())) if of.size else None for of in present]
        low, high = spans[0] or (-np.inf, np.inf)
        is_new = (present[1] < low) | (present[1] > high)
    if present[1].size:
        outside = float(is_new.mean())
    missing = [
        1 - of.size / every.size if every.size else 0.0
        for of, every in zip(present, values, strict=True)
    ]
    return Drifted(
        name=shown,
        kind=part.kind,
        before=columns[0].rows,
        now=columns[1].rows,
        missing=(missing[0], missing[1]),
        values=differences[0],
        gaps=differences[1],
        spans=(spans[0], spans[1]),
        outside=outside,
        categories=unknown,
    )
