"""An interval for the difference of two classifiers on the same samples."""

from __future__ import annotations

from typing import Any

import numpy as np

from ramet.metrics.classification import Labels, Metric, Probabilities

_RESAMPLES = 999


def bootstrap_interval(
    labels: Labels, first: Probabilities, second: Probabilities, metric: Metric
) -> tuple[float, float]:
    """The 95 % percentile interval of how much better the second classifier is than the first.

    The samples are drawn with replacement, for both classifiers the same ones. Both are fixed: the
    interval says what other test samples could have shown, not what another training could have.
    """
    from scipy.stats import bootstrap  # takes half a second to import

    def gain(chosen: Any) -> float:
        return metric(labels[chosen], second[chosen]) - metric(labels[chosen], first[chosen])

    found = bootstrap(
        (np.arange(labels.size),),
        gain,
        n_resamples=_RESAMPLES,
        vectorized=False,
        method="percentile",
        rng=np.random.default_rng(0),
    ).confidence_interval
    return float(found.low), float(found.high)
