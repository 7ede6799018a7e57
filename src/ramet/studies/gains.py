"""Gains of one method over another, in pairs with the same split and seed, with 95 % intervals."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from math import hypot, sqrt
from statistics import fmean, stdev
from typing import Literal

from ramet.studies.finished_run import Draw

FEWEST_PAIRS = 5
"""With fewer pairs there is no p-value, and a paper's claim is undecided."""
MOST_PAIRS = 50
"""What more pairs than these would decide is not worth their hours."""
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
    spread: float | None = None
    """Standard deviation of the pairs' differences."""
    error: float | None = None
    """Standard error of the mean."""
    pairs: int = 1
    """Splits, or with one split its seeds."""

    @property
    def effect(self) -> float | None:
        """Cohen's d of the pairs: the mean difference in standard deviations of the differences."""
        return None if self.spread is None else self.mean / self.spread

    @property
    def verdict(self) -> str:
        """What the interval says: helps or hurts if it excludes 0, otherwise undecided."""
        return {"holds": "helps", "fails": "hurts", "undecided": "undecided"}[self.at_least(0)]

    def widened(self, error: float | None, samples: int, test_to_train: float) -> Gain:
        """With an interval that also covers the choice of samples, where one split is all there is.

        The error is that of the test samples, and larger by the factor of `paired_gain` for the
        choice of training samples. Errors of training and samples are independent, so that their
        squares add up. One run of each method says nothing about training; then the interval is
        that of the samples.

        Args:
            error: standard error from the choice of test samples; None leaves the gain as it is.
            samples: number of test samples.
            test_to_train: number of test samples per training sample.
        """
        if error is None:
            return self
        half = _quantile(samples - 1) * error * sqrt(1 + test_to_train)
        if self.low is not None:
            half = hypot(half, self.mean - self.low)
        low, high = self.mean - half, self.mean + half
        return replace(self, low=low, high=high, p_value=None)  # it covered training alone

    @property
    def has_enough_pairs(self) -> bool:
        return self.pairs >= FEWEST_PAIRS

    def at_least(self, least: float) -> Literal["holds", "undecided", "fails"]:
        """Whether the gain is ``least`` or more: decided if the interval is on one side of it."""
        if self.low is not None and self.low > least:
            return "holds"
        return "fails" if self.high is not None and self.high < least else "undecided"

    def pairs_to_decide(self, least: float) -> int | None:
        """How many pairs would decide ``at_least``, if mean and spread stayed; None: over 50."""
        if self.spread is None or self.error is None:
            return FEWEST_PAIRS
        overlap = (self.error / self.spread) ** 2 - 1 / self.pairs
        for pairs in range(FEWEST_PAIRS, MOST_PAIRS + 1):
            error = self.spread * sqrt(1 / pairs + overlap)
            if abs(self.mean - least) > _quantile(pairs - 1) * error:
                return pairs
        return None

    def equivalence(self, margin: float) -> float | None:
        """The p-value of two one-sided tests that the gain is between −margin and +margin.

        None if there are too few pairs. https://doi.org/10.1007/BF01068419
        """
        if self.error is None or not self.has_enough_pairs:
            return None
        from scipy.special import stdtr

        freedom = self.pairs - 1
        not_lower = stdtr(freedom, -(self.mean + margin) / self.error)
        not_higher = stdtr(freedom, (self.mean - margin) / self.error)
        return float(max(not_lower, not_higher))


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
    values = by_split_or_seed(differences)
    several = len({draw.split_seed for draw in differences}) > 1
    mean, pairs, overlap = fmean(values), len(values), test_to_train if several else 0.0
    if pairs < 2 or len(set(values)) == 1 or overlap is None:
        return Gain(mean, pairs=pairs)
    from scipy.special import stdtr  # scipy.stats takes half a second to import

    spread = stdev(values)
    error = spread * sqrt(1 / pairs + overlap)
    half = _quantile(pairs - 1) * error
    p_value = 2 * float(stdtr(pairs - 1, -abs(mean) / error))
    return Gain(
        mean=mean,
        low=mean - half,
        high=mean + half,
        p_value=p_value if pairs >= FEWEST_PAIRS else None,
        spread=spread,
        error=error,
        pairs=pairs,
    )


@dataclass(frozen=True)
class Mean:
    """A mean over independent runs, and their standard deviation."""

    value: float
    deviation: float
    runs: int

    @property
    def variance(self) -> float:
        return self.deviation**2 / self.runs


def between(ours: Mean, theirs: Mean) -> Gain:
    """Ours minus theirs, with the interval of Welch's t-test, https://doi.org/10.2307/2332510.

    Each run has a random split of the same data, so that there is no factor for overlap: nothing is
    said about other data.
    """
    difference, variance = ours.value - theirs.value, ours.variance + theirs.variance
    if not variance:
        return Gain(difference, pairs=ours.runs)
    parts = sum(mean.variance**2 / (mean.runs - 1) for mean in (ours, theirs) if mean.variance)
    half = _quantile(variance**2 / parts) * sqrt(variance)
    return Gain(difference, difference - half, difference + half, pairs=ours.runs)


def _quantile(freedom: float) -> float:
    """Of Student's t-distribution, for a two-sided interval."""
    from scipy.special import stdtrit

    return float(stdtrit(freedom, (1 + _LEVEL) / 2))


def by_split_or_seed(values: Mapping[Draw, float]) -> list[float]:
    """A value per split, the mean of its seeds; with one split a value per seed."""
    by_split: dict[int, list[float]] = {}
    for draw, value in values.items():
        by_split.setdefault(draw.split_seed, []).append(round(value, _DIGITS))
    seeds = [*by_split.values()]
    return seeds[0] if len(seeds) == 1 else [fmean(of_split) for of_split in seeds]


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """The p-values, adjusted for their number by Holm's method; None stays None.

    The smallest of m is multiplied by m, the next by m − 1, and so on; none may be smaller than the
    one before it. https://www.jstor.org/stable/4615733
    """
    ordered = sorted(p for p in p_values if p is not None)
    multiplied = (min(1.0, (len(ordered) - rank) * p) for rank, p in enumerate(ordered))
    adjusted = dict(zip(ordered, accumulate(multiplied, max), strict=True))
    return [None if p is None else adjusted[p] for p in p_values]
