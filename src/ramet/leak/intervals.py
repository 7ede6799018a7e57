"""Estimates of attacks with 95 % intervals."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Scores: TypeAlias = NDArray[np.float64]  # [samples]
LEVEL = 0.95
_Z = 1.959963984540054
_RESAMPLES = 999
_TINY = 1e-9
"""The found value itself is always within reach, so the ends are searched beyond it."""


@dataclass(frozen=True)
class Estimate:
    """A number and its 95 % interval."""

    value: float
    low: float
    high: float


@dataclass(frozen=True)
class Ranked:
    """An attacker's scores at one site: higher means more likely positive."""

    positives: Scores
    negatives: Scores

    @property
    def usable(self) -> bool:
        return bool(self.positives.size and self.negatives.size)


def auc(given: Ranked) -> float:
    """The probability that a positive has a higher score than a negative; ties count half."""
    ordered = np.sort(given.negatives)
    below = np.searchsorted(ordered, given.positives, "left")
    not_above = np.searchsorted(ordered, given.positives, "right")
    return float((below + not_above).mean() / 2 / ordered.size)


def mean_auc(sites: Sequence[Ranked]) -> float:
    """The mean AUC of the sites, weighted by their numbers of samples."""
    return float(np.average([auc(site) for site in sites], weights=_weights(sites)))


def auc_estimate(sites: Sequence[Ranked]) -> Estimate:
    """The mean AUC of the sites, with the score interval of Newcombe (2006), method 5.

    At 0.5 its variance is that of the Mann-Whitney test, and unlike a bootstrap it does not shrink
    to a point at 1.
    """
    shares = _weights(sites) / _weights(sites).sum()

    def variance(area: float) -> float:
        parts = [
            share**2 * _variance(area, site) for share, site in zip(shares, sites, strict=True)
        ]
        return float(sum(parts))

    return _score_interval(mean_auc(sites), variance)


def _weights(sites: Sequence[Ranked]) -> Scores:
    return np.array([site.positives.size + site.negatives.size for site in sites], np.float64)


def _variance(area: float, site: Ranked) -> float:
    """Hanley and McNeil's variance of an AUC, with equal sizes in its middle terms."""
    positives, negatives = site.positives.size, site.negatives.size
    others = (positives + negatives) / 2 - 1
    factor = 1 + others * (1 - area) / (2 - area) + others * area / (1 + area)
    return area * (1 - area) * factor / (positives * negatives)


def _score_interval(value: float, variance: Callable[[float], float]) -> Estimate:
    """All true values from which the found one is at most 1.96 standard errors away."""
    from scipy.optimize import brentq  # takes half a second to import

    def distance(true: float) -> float:
        return float(abs(value - true) - _Z * np.sqrt(variance(true)))

    low = 0.0 if distance(0.0) <= 0 else brentq(distance, 0.0, value - _TINY)
    high = 1.0 if distance(1.0) <= 0 else brentq(distance, value + _TINY, 1.0)
    return Estimate(value, float(low), float(high))


def hit_rate(sites: Sequence[Ranked], false_alarms: float = 0.01) -> Estimate:
    """The share of positives that are found with at most this share of false alarms.

    One threshold for all sites, found on their negatives. With few of them, the true share of false
    alarms may be much larger, up to ``worst``. Hits grow at most in proportion to false alarms, so
    the lower end of Clopper and Pearson's interval is reduced by that ratio. The upper end is also
    that of a bootstrap over negatives.
    """
    from scipy.stats import beta

    positives = np.sort(np.concatenate([site.positives for site in sites]))
    negatives = np.sort(np.concatenate([site.negatives for site in sites]))
    allowed = int(false_alarms * negatives.size)
    rank = negatives.size - 1 - allowed

    def hits(threshold: Any) -> Any:
        return positives.size - np.searchsorted(positives, threshold, "right")

    draw = np.random.default_rng(0)
    drawn = np.sort(draw.integers(negatives.size, size=(_RESAMPLES, negatives.size)), axis=1)
    highest = np.percentile(hits(negatives[drawn[:, rank]]) / positives.size, 97.5)
    exact = proportion(int(hits(negatives[rank])), positives.size)
    worst = float(beta.ppf((1 + LEVEL) / 2, allowed + 1, negatives.size - allowed))
    low = exact.low * min(1.0, false_alarms / worst)
    return Estimate(exact.value, low, max(exact.high, float(highest)))


def proportion(hits: int, trials: int) -> Estimate:
    """A share with the interval of Clopper and Pearson."""
    from scipy.stats import binomtest

    interval = binomtest(hits, trials).proportion_ci(LEVEL, method="exact")
    return Estimate(hits / trials, float(interval.low), float(interval.high))


def mean(values: Sequence[float]) -> Estimate:
    """A mean with Student's interval."""
    from scipy.stats import t

    found = np.asarray(values, np.float64)
    centre = float(found.mean())
    if found.size < 2:
        return Estimate(centre, -np.inf, np.inf)
    reach = float(t.ppf((1 + LEVEL) / 2, found.size - 1) * found.std(ddof=1) / found.size**0.5)
    return Estimate(centre, centre - reach, centre + reach)


def f1_estimate(truth: NDArray[np.bool_], found: NDArray[np.bool_]) -> Estimate:
    """The F1 score of what was found, with a percentile bootstrap over the entries."""
    draw = np.random.default_rng(0)
    rows = draw.integers(truth.size, size=(_RESAMPLES, truth.size))
    resampled = [f1(truth[chosen], found[chosen]) for chosen in rows]
    low, high = np.percentile(resampled, [2.5, 97.5])
    return Estimate(f1(truth, found), float(low), float(high))


def f1(truth: NDArray[np.bool_], found: NDArray[np.bool_]) -> float:
    """2 · hits / (entries that are true + entries that were found); 1 if there are neither."""
    total = int(truth.sum()) + int(found.sum())
    return 2 * int((truth & found).sum()) / total if total else 1.0


def epsilon_bound(correct: int, guesses: int, delta: float = 0.0) -> Estimate:
    """A lower bound on ε from guesses which canaries were trained with, each by a fair coin.

    Steinke, Nasr and Jagielski, *Privacy Auditing with One (1) Training Run*, 2023: under ε, the
    number of correct guesses is not larger than that of independent coins with e^ε / (1 + e^ε). δ
    adds at most 2 · guesses · δ to the probability of an error. The bound holds with 95 %
    confidence; it has no upper end.
    """
    from scipy.stats import beta

    error = 1 - LEVEL - 2 * guesses * delta
    if error <= 0 or not correct:
        return Estimate(0.0, 0.0, np.inf)
    rate = float(beta.ppf(error, correct, guesses - correct + 1))
    bound = max(0.0, float(np.log(rate / (1 - rate))))
    return Estimate(bound, bound, np.inf)
