"""What other test samples could have shown: errors and intervals of scores, and of differences."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import nan, sqrt
from statistics import fmean
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ramet.metrics.metric import Labels, Metric, Predicted

_RESAMPLES = 999


def bootstrap_error(
    labels: Labels, pairs: Sequence[tuple[Predicted, Predicted]], metric: Metric
) -> float | None:
    """The standard error of the difference of the second of two models from the first.

    With several pairs, it is that of the mean over them. The samples are drawn with replacement,
    for all models the same ones. All are fixed: the error says what other test samples could
    have shown, not what another training could have. None for fewer than two samples.
    """
    count = len(labels)
    if count < 2:
        return None
    from scipy.stats import bootstrap  # takes half a second to import

    def gain(chosen: Any) -> float:
        true = labels[chosen]
        scores = ((metric(true, a[chosen]), metric(true, b[chosen])) for a, b in pairs)
        return fmean(nan if a is None or b is None else b - a for a, b in scores)

    found = bootstrap(
        (np.arange(count),),
        gain,
        n_resamples=_RESAMPLES,
        vectorized=False,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    unbiased = sqrt(count / (count - 1))  # the resampled are closer to each other
    return float(np.nanstd(found.bootstrap_distribution, ddof=1)) * unbiased


@dataclass(frozen=True)
class Score:
    """A score or a difference with its 95 % interval, if the samples are enough for one."""

    value: float
    low: float | None = None
    high: float | None = None


def share(count: int, total: int) -> Score:
    """A share with the exact binomial interval."""
    if not total:
        return Score(nan)
    from scipy.stats import binomtest

    interval = binomtest(count, total).proportion_ci()
    return Score(count / total, float(interval.low), float(interval.high))


@dataclass(frozen=True)
class Resampled:
    """A score, and what it would have been for samples drawn with replacement."""

    value: float
    draws: NDArray[np.float64]

    @staticmethod
    def of(labels: Labels, predicted: Predicted, metric: Metric, seed: int = 0) -> Resampled:
        def score(chosen: Any) -> float:
            return _score(metric, labels[chosen], predicted[chosen])

        value = _score(metric, labels, predicted)
        if len(labels) < 2:
            return Resampled(value, np.empty(0))
        from scipy.stats import bootstrap

        given, rng = (np.arange(len(labels)),), np.random.default_rng(seed)
        how: Any = {"n_resamples": _RESAMPLES, "vectorized": False, "method": "percentile"}
        return Resampled(value, bootstrap(given, score, rng=rng, **how).bootstrap_distribution)

    @property
    def score(self) -> Score:
        return Score(self.value, *self._percentiles(self.draws))

    def minus(self, other: Resampled) -> Score:
        """The difference to another score.

        Of independent samples, the draws have another seed; of the same samples, the same one.
        """
        difference = self.value - other.value
        if None in (self.score.low, other.score.low):
            return Score(difference)
        return Score(difference, *self._percentiles(self.draws - other.draws))

    @staticmethod
    def _percentiles(draws: NDArray[np.float64]) -> tuple[float, float] | tuple[None, None]:
        """None if all draws agree, as of a perfect score, which says nothing about others."""
        if len(np.unique(draws[~np.isnan(draws)])) < 2:
            return None, None
        low, high = np.nanpercentile(draws, [2.5, 97.5])
        return float(low), float(high)


def exchangeable(
    one: tuple[Labels, Predicted], other: tuple[Labels, Predicted], metric: Metric
) -> float:
    """The p-value that two sets of samples are alike, from the difference of their scores.

    A permutation test: samples are dealt to the two sets anew.
    """
    from scipy.stats import permutation_test

    labels, predicted = (np.concatenate(parts) for parts in zip(one, other, strict=True))

    def difference(first: Any, second: Any) -> float:
        scores = (_score(metric, labels[part], predicted[part]) for part in (first, second))
        return next(scores) - next(scores)

    every, count = np.arange(len(labels)), len(one[0])
    how: Any = {"n_resamples": _RESAMPLES, "vectorized": False, "rng": np.random.default_rng(0)}
    found = permutation_test((every[:count], every[count:]), difference, **how)
    return float(found.pvalue)


def swappable(labels: Labels, pair: tuple[Predicted, Predicted], metric: Metric) -> float:
    """The p-value that two models are alike, from the difference of their scores.

    A paired permutation test: the models' predictions of each sample are swapped or not.
    """
    from scipy.stats import permutation_test

    count, both = len(labels), np.concatenate(pair)

    def difference(first: Any, second: Any) -> float:
        scores = (_score(metric, labels, both[part]) for part in (first, second))
        return next(scores) - next(scores)

    every = np.arange(2 * count)
    how: Any = {"n_resamples": _RESAMPLES, "vectorized": False, "rng": np.random.default_rng(0)}
    given = every[:count], every[count:]
    found = permutation_test(given, difference, permutation_type="samples", **how)
    return float(found.pvalue)


def _score(metric: Metric, labels: Labels, predicted: Predicted) -> float:
    found = metric(labels, predicted)
    return nan if found is None else found
