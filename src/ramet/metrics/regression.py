"""Metrics of numbers, from true and predicted values. With several targets, means over them."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ramet.metrics.metric import Metric, over_columns
from ramet.scale import Scale


def _mean_absolute_error(true: Any, predicted: Any) -> float:
    from sklearn.metrics import mean_absolute_error  # takes a second to import

    return float(mean_absolute_error(true, predicted))


def _root_mean_squared_error(true: Any, predicted: Any) -> float:
    from sklearn.metrics import mean_squared_error

    return sqrt(mean_squared_error(true, predicted))


def _r2(true: Any, predicted: Any) -> float | None:
    """None for fewer than two samples, and for equal ones."""
    from sklearn.metrics import r2_score

    if true.size < 2 or (true == true[0]).all():
        return None
    return float(r2_score(true, predicted))


_ERROR = Scale(low=0.0, lower_is_better=True)
METRICS: dict[str, Metric] = {
    "mae": Metric("mae", over_columns(_mean_absolute_error), _ERROR, in_units=True),
    "rmse": Metric("rmse", over_columns(_root_mean_squared_error), _ERROR, in_units=True),
    "r2": Metric("r2", over_columns(_r2), Scale(high=1.0)),
}
