"""Metrics of several labels of 0 and 1, from true labels and predicted probabilities."""

from __future__ import annotations

from typing import Any

from ramet.metrics.classification import area_under_roc
from ramet.metrics.metric import Metric, over_columns


def _average_precision(true: Any, predicted: Any) -> float | None:
    """None for a label that nothing has."""
    from sklearn.metrics import average_precision_score  # takes a second to import

    return float(average_precision_score(true, predicted)) if true.any() else None


def _area(true: Any, predicted: Any) -> float:
    return area_under_roc(true > 0, predicted)


def _accuracy(true: Any, predicted: Any) -> float:
    return float(((predicted > 0.5) == (true > 0.5)).mean())


METRICS: dict[str, Metric] = {
    "average-precision": Metric("average-precision", over_columns(_average_precision)),
    "roc-auc": Metric("roc-auc", over_columns(_area)),
    "accuracy": Metric("accuracy", over_columns(_accuracy)),
}
