"""The error of a difference of models that comes from the choice of test samples."""

from __future__ import annotations

from collections.abc import Sequence
from math import nan, sqrt
from statistics import fmean
from typing import Any

import numpy as np

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
