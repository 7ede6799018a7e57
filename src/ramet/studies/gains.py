"""Gains of one method over another, in pairs with the same split and seed, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import sqrt
from statistics import fmean, variance

from ramet.studies.finished_run import Draw

_LEVEL = 0.95
_DIGITS = 12
"""Differences that agree to this many digits are equal."""


@dataclass(frozen=True)
class Gain:
    """A mean difference of scores; without an interval if too few runs say how much it varies."""

    mean: float
    low: float | None = None
    high: float | None = None
    p_value: float | None = None

    @property
    def verdict(self) -> str:
        """What the interval says: helps or hurts if it excludes 0, otherwise undecided."""
        if self.low is not None and self.low > 0:
            return "helps"
        return "hurts" if self.high is not None and self.high < 0 else "undecided"


def paired_gain(differences: Mapping[Draw, float], test_to_train: float | None) -> Gain:
    """The mean difference, with the interval and the p-value of a paired t-test.

    With several splits, a split's seeds are averaged first, and the variance over splits is
    multiplied by 1/J + test/train instead of 1/J, because the splits' training sets overlap: the
    corrected resampled t-test of Nadeau and Bengio (2003), https://doi.org/10.1023/A:1024068626366.
    With one split, the test is over its seeds, so that it covers the randomness of training only.

    Args:
        differences: by draw.
        test_to_train: number of test samples per training sample; None if it is not known.
    """
    by_split: dict[int, list[float]] = {}
    for draw, difference in differences.items():
        by_split.setdefault(draw.split_seed, []).append(round(difference, _DIGITS))
    several = len(by_split) > 1
    seeds = next(iter(by_split.values()))
    values = [fmean(of_split) for of_split in by_split.values()] if several else seeds
    mean, overlap = fmean(values), test_to_train if several else 0.0
    if len(values) < 2 or len(set(values)) == 1 or overlap is None:
        return Gain(mean)
    from scipy.stats import t  # takes half a second to import

    freedom = len(values) - 1
    error = sqrt(variance(values) * (1 / len(values) + overlap))
    half = float(t.ppf((1 + _LEVEL) / 2, freedom)) * error
    p_value = 2 * float(t.sf(abs(mean) / error, freedom))
    return Gain(mean, mean - half, mean + half, p_value)
