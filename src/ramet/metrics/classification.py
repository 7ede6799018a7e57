"""Metrics of classifiers, from labels and predicted probabilities.

The positive class of a binary task is the last one. With more classes, ROC-AUC and average
precision are means over the classes that occur, each against the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ramet.metrics.evaluation import ClassScores, Evaluation, scored
from ramet.metrics.metric import Labels, Metric, Predicted

Probabilities: TypeAlias = Predicted  # [samples, classes]
CALIBRATION_BINS = 15


def accuracy(labels: Labels, probabilities: Probabilities) -> float:
    return float((probabilities.argmax(axis=1) == labels).mean())


def balanced_accuracy(labels: Labels, probabilities: Probabilities) -> float:
    """The mean recall of the classes that occur."""
    from sklearn.metrics import recall_score  # takes a second to import

    present, predicted = np.unique(labels), probabilities.argmax(axis=1)
    return float(recall_score(labels, predicted, labels=present, average="macro"))


def macro_f1(labels: Labels, probabilities: Probabilities) -> float:
    """The mean F1 score of the classes that occur or are predicted."""
    from sklearn.metrics import f1_score

    return float(f1_score(labels, probabilities.argmax(axis=1), average="macro"))


def area_under_roc(positive: NDArray[Any], scores: NDArray[Any]) -> float:
    """The area under the ROC curve; NaN if only one class occurs or a score is NaN.

    The same number as scikit-learn's, to the last bit, without its checks of arguments, which take
    longer than the curve of a client's few samples.
    """
    if not positive.size or positive.all() or not positive.any() or np.isnan(scores).any():
        return float("nan")
    order = np.argsort(-scores)
    ranked = scores[order]
    last_of_equals = np.flatnonzero(np.r_[ranked[1:] != ranked[:-1], True])
    true = np.cumsum(positive[order], dtype=np.float64)[last_of_equals]
    false = 1.0 + last_of_equals - true
    if true.size > 2:  # points between two others on a line change the rounding of the sum below
        corners = np.r_[True, (np.diff(true, 2) != 0) | (np.diff(false, 2) != 0), True]
        true, false = true[corners], false[corners]
    up, right = np.r_[0.0, true] / true[-1], np.r_[0.0, false] / false[-1]
    return float((np.diff(right) * (up[1:] + up[:-1]) / 2.0).sum())


def roc_auc(labels: Labels, probabilities: Probabilities) -> float:
    """0.5 if all samples have the same class."""

    def area(positive: Any, scores: Any) -> float:
        return 0.5 if positive.all() else area_under_roc(positive, scores)

    return _mean_over_classes(labels, probabilities, area, chance=0.5)


def average_precision(labels: Labels, probabilities: Probabilities) -> float:
    """0 if no sample has the positive class; NaN if a score is NaN, as an error would say more."""
    from sklearn.metrics import average_precision_score

    def area(positive: Any, scores: Any) -> float:
        has_nan = np.isnan(scores).any()
        return float("nan") if has_nan else float(average_precision_score(positive, scores))

    return _mean_over_classes(labels, probabilities, area, chance=0.0)


METRICS: dict[str, Metric] = {
    "accuracy": Metric("accuracy", accuracy),
    "balanced-accuracy": Metric("balanced-accuracy", balanced_accuracy),
    "macro-f1": Metric("macro-f1", macro_f1),
    "roc-auc": Metric("roc-auc", roc_auc),
    "average-precision": Metric("average-precision", average_precision),
}


def _mean_over_classes(
    labels: Labels, probabilities: Probabilities, area: Callable[[Any, Any], float], chance: float
) -> float:
    classes = probabilities.shape[1]
    positive = [classes - 1] if classes == 2 else [*range(classes)]
    present = [one for one in positive if (labels == one).any()]
    areas = [area(labels == one, probabilities[:, one]) for one in present]
    return float(np.mean(areas)) if areas else chance


def evaluate(
    labels: Labels, probabilities: Probabilities, names: Sequence[str], constant: Probabilities
) -> Evaluation:
    """All metrics of probabilities of classes, and of a constant row of them."""
    from sklearn.metrics import brier_score_loss, confusion_matrix, precision_recall_fscore_support

    every, predicted = [*range(len(names))], probabilities.argmax(axis=1)
    by_class = precision_recall_fscore_support(labels, predicted, labels=every, zero_division=0.0)
    return scored(
        labels,
        probabilities,
        constant,
        METRICS,
        calibration_error=_calibration_error(labels, probabilities),
        brier=float(brier_score_loss(labels, probabilities, labels=every, scale_by_half=False)),
        classes=[
            ClassScores(name, float(precision), float(recall), float(f1), int(count))
            for name, precision, recall, f1, count in zip(names, *by_class, strict=True)
        ],
        confusion=confusion_matrix(labels, predicted, labels=every).tolist(),
    )


def _calibration_error(labels: Labels, probabilities: Probabilities) -> float:
    """The gap between confidence and accuracy, averaged over the samples of each bin."""
    from sklearn.calibration import calibration_curve

    confidence, correct = probabilities.max(axis=1), probabilities.argmax(axis=1) == labels
    true, predicted = calibration_curve(correct, confidence, n_bins=CALIBRATION_BINS)
    edges = np.linspace(0.0, 1.0, CALIBRATION_BINS + 1)[1:-1]
    counts = np.bincount(np.searchsorted(edges, confidence))
    return float(np.average(np.abs(true - predicted), weights=counts[counts > 0]))
