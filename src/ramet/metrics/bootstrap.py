"""The error of a difference of classifiers that comes from the choice of test samples."""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt
from statistics import fmean
from typing import Any

import numpy as np

from ramet.metrics.classification import Labels, Metric, Probabilities

_RESAMPLES = 999


def bootstrap_error(
    labels: Labels, pairs: Sequence[tuple[Probabilities, Probabilities]], metric: Metric
) -> float | None:
    """The standard error of how much better the second of two classifiers is.

    With several pairs, it is that of the mean over them. The samples are drawn with replacement,
    for all classifiers the same ones. All are fixed: the error says what other test samples could
    have shown, not what another training could have. None for fewer than two samples.
    """
    if labels.size < 2:
        return None
    from scipy.stats import bootstrap  # takes half a second to import

    def gain(chosen: Any) -> float:
        true = labels[chosen]
        return fmean(metric(true, b[chosen]) - metric(true, a[chosen]) for a, b in pairs)

    found = bootstrap(
        (np.arange(labels.size),),
        gain,
        n_resamples=_RESAMPLES,
        vectorized=False,
        method="percentile",
        rng=np.random.default_rng(0),
    )
    unbiased = sqrt(labels.size / (labels.size - 1))  # the resampled are closer to each other
    return float(found.standard_error) * unbiased
