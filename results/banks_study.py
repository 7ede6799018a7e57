"""The kept scores of `banks.py`, and what follows from them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from itertools import product
from statistics import fmean
from typing import Literal, TypeAlias

from banks import KEPT, SEED, SPLITS, scored
from banks_data import LEVELS, TASKS

from ramet.studies.archive import kept
from ramet.studies.finished_run import Draw
from ramet.studies.gains import Gain, holm, paired_gain
from ramet.studies.sites import SiteStanding

ALONE, POOLED = "local", "pooled"
Measure: TypeAlias = Literal["ap", "recall"]
Banks: TypeAlias = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Case:
    """A task at a level: each bank's scores, by row and split."""

    task: str
    level: str
    rows: Mapping[str, Mapping[int, Banks]]

    def mean(self, row: str, measure: Measure) -> float:
        """Over banks and splits."""
        return fmean(_over_banks(banks, measure) for banks in self.rows[row].values())

    @property
    def share(self) -> float:
        """Of laundering among test rows: the average precision of a random ranking."""
        return fmean(one["fraud"] / one["test"] for one in self._tests())

    @property
    def laundering(self) -> list[int]:
        """Among the test rows of each bank and split."""
        return [int(one["fraud"]) for one in self._tests()]

    def _tests(self) -> Iterator[Mapping[str, float]]:
        for banks in self.rows[ALONE].values():
            yield from banks.values()

    def has(self, *rows: str) -> bool:
        """Whether they have a split in common."""
        return bool(set.intersection(*(set(self.rows.get(row, ())) for row in rows)))

    def is_complete(self, *rows: str) -> bool:
        return all(len(self.rows.get(row, ())) == len(SPLITS) for row in rows)

    def gain(self, better: str, than: str, measure: Measure = "ap") -> Gain:
        own, other = self.rows[better], self.rows[than]
        return self._paired(
            {
                split: _over_banks(own[split], measure) - _over_banks(other[split], measure)
                for split in own.keys() & other.keys()
            }
        )

    def banks(self, row: str) -> list[SiteStanding]:
        """Each bank alone and together, by average precision."""
        alone, together = self.rows[ALONE], self.rows[row]
        splits = sorted(alone.keys() & together.keys())
        found = []
        for bank in next(iter(together.values())):
            pairs = {one: (alone[one][bank]["ap"], together[one][bank]["ap"]) for one in splits}
            found.append(
                SiteStanding(
                    site=bank,
                    constant=None,
                    alone=fmean(before for before, _ in pairs.values()),
                    together=fmean(after for _, after in pairs.values()),
                    gain=self._paired(
                        {one: after - before for one, (before, after) in pairs.items()}
                    ),
                )
            )
        adjusted = holm([one.gain.p_value for one in found])
        return [replace(one, p_holm=p) for one, p in zip(found, adjusted, strict=True)]

    def _paired(self, differences: Mapping[int, float]) -> Gain:
        sizes = next(iter(self.rows[ALONE].values())).values()
        ratio = fmean(one["test"] / one["train"] for one in sizes)
        return paired_gain({Draw(split, SEED): d for split, d in differences.items()}, ratio)


def _over_banks(banks: Banks, measure: Measure) -> float:
    return fmean(one[measure] for one in banks.values())


def last_rises(row: str) -> Iterator[float]:
    """The mean rise of validation scores from the last round but one to the last, by case."""
    for task, level in product(TASKS, LEVELS):
        runs = [
            run
            for path in sorted((KEPT / f"{task}-{level}").glob("*.json"))
            for run in kept(path)
            if run.spec.method == row
        ]
        if runs:
            yield fmean(run.rounds[-1].val - run.rounds[-2].val for run in runs)


@cache
def cases() -> tuple[Case, ...]:
    """Those with runs."""
    return tuple(_cases())


def _cases() -> Iterator[Case]:
    found: dict[tuple[str, str], dict[str, dict[int, Banks]]] = {}
    for (task, level, row, split), banks in scored():
        found.setdefault((task, level), {}).setdefault(row, {})[split] = banks
    for key in product(TASKS, LEVELS):
        if key in found:
            yield Case(*key, found[key])
