"""A metric: how it is computed, and on what scale."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ramet.scale import SHARE, Scale

Labels: TypeAlias = NDArray[Any]
"""[samples] classes, or [samples, outputs] numbers or labels of 0 and 1, with NaN for unknown."""
Predicted: TypeAlias = NDArray[np.float64]  # [samples, outputs]


@dataclass(frozen=True)
class Metric:
    """A score of predictions.

    Args:
        name: shown in tables.
        compute: the score of true values and predictions: of classes [samples] and probabilities
            [samples, classes], or of two arrays [samples, outputs]; None if the true values do not
            allow one.
        scale: its range, its unit, and whether lower is better.
        in_units: whether it has the unit of what is predicted.
    """

    name: str
    compute: Callable[[Labels, Predicted], float | None]
    scale: Scale = SHARE
    in_units: bool = False

    def __call__(self, true: Labels, predicted: Predicted) -> float | None:
        return self.compute(true, predicted)

    def in_unit(self, unit: str) -> Metric:
        """The metric of something that is measured in a unit."""
        if not (self.in_units and unit):
            return self
        return replace(self, scale=replace(self.scale, unit=unit))


def over_columns(
    compute: Callable[[Labels, Predicted], float | None],
) -> Callable[[Labels, Predicted], float | None]:
    """The mean of a score over the outputs, each over the samples where it is known.

    Outputs without a score do not count. NaN if a prediction is NaN.
    """

    def mean(true: Labels, predicted: Predicted) -> float | None:
        if np.isnan(predicted).any():
            return float("nan")
        scores = []
        for column in range(true.shape[1]):
            known = ~np.isnan(true[:, column])
            score = compute(true[known, column], predicted[known, column]) if known.any() else None
            if score is not None and not np.isnan(score):
                scores.append(float(score))
        return float(np.mean(scores)) if scores else None

    return mean
