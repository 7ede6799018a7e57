"""Metrics of classifiers, against numbers by hand and scikit-learn."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.metrics import average_precision_score, balanced_accuracy_score, roc_auc_score

from ramet.metrics.classification import METRICS, area_under_roc, evaluate

RARE = np.array([0] * 8 + [1] * 2)
NEVER = np.tile([0.9, 0.1], (10, 1))


def test_a_model_that_never_finds_a_rare_class_is_accurate_and_useless() -> None:
    scores = {name: metric(RARE, NEVER) for name, metric in METRICS.items()}
    assert scores["accuracy"] == 0.8
    assert scores["balanced-accuracy"] == 0.5
    assert scores["macro-f1"] == pytest.approx((16 / 18 + 0.0) / 2)
    assert scores["roc-auc"] == 0.5
    assert scores["average-precision"] == pytest.approx(0.2)


def test_all_metrics_by_hand() -> None:
    labels = np.array([0, 0, 1, 1])
    probabilities = np.array([[0.9, 0.1], [0.4, 0.6], [0.3, 0.7], [0.8, 0.2]])
    found = evaluate(labels, probabilities, ["healthy", "ill"], np.array([1.0, 0.0]))
    assert found.confusion == [[1, 1], [1, 1]]
    ill = found.classes[1]
    assert (ill.name, ill.precision, ill.recall, ill.samples) == ("ill", 0.5, 0.5, 2)
    assert found.metrics["roc-auc"] == 0.75
    assert found.constant["accuracy"] == found.constant["balanced-accuracy"] == 0.5
    # The confidences 0.9, 0.6, 0.7 and 0.8 fall into different bins; 0.9 and 0.7 are right.
    assert found.calibration_error == pytest.approx((0.1 + 0.6 + 0.3 + 0.8) / 4)
    assert found.brier == pytest.approx(2 * (0.01 + 0.36 + 0.09 + 0.64) / 4)


def test_several_classes_equal_scikit_learn() -> None:
    draw = np.random.default_rng(0)
    labels, probabilities = draw.integers(0, 3, 300), draw.dirichlet([1, 1, 1], 300)
    area = roc_auc_score(labels, probabilities, multi_class="ovr")
    assert METRICS["roc-auc"](labels, probabilities) == pytest.approx(area)
    precision = average_precision_score(np.eye(3)[labels], probabilities, average="macro")
    assert METRICS["average-precision"](labels, probabilities) == pytest.approx(precision)
    balanced = balanced_accuracy_score(labels, probabilities.argmax(axis=1))
    assert METRICS["balanced-accuracy"](labels, probabilities) == pytest.approx(balanced)


def test_a_part_with_one_class_has_defined_scores() -> None:
    healthy = np.zeros(4, dtype=np.int64)
    probabilities = np.tile([0.7, 0.3], (4, 1))
    scores = {name: metric(healthy, probabilities) for name, metric in METRICS.items()}
    assert scores == {
        "accuracy": 1.0,
        "balanced-accuracy": 1.0,
        "macro-f1": 1.0,
        "roc-auc": 0.5,
        "average-precision": 0.0,
    }
    assert METRICS["roc-auc"](healthy + 1, probabilities) == 0.5


def test_the_area_under_the_roc_curve_has_scikit_learns_bits() -> None:
    draw = np.random.default_rng(0)
    for samples in [2, 3, 5, 20, 300] * 60:
        positive = draw.random(samples) < draw.uniform(0.1, 0.9)
        positive[:2] = True, False
        scores = draw.normal(positive, 1.0).round(int(draw.integers(0, 8)))  # some are equal
        scores = scores.astype(np.float32 if samples % 2 else np.float64)
        assert area_under_roc(positive, scores) == float(roc_auc_score(positive, scores))


def test_an_area_without_a_curve_is_nan() -> None:
    one_class, scores = np.array([True, True]), np.array([0.1, 0.2])
    assert np.isnan(area_under_roc(one_class, scores))
    assert np.isnan(area_under_roc(~one_class, scores))
    assert np.isnan(area_under_roc(np.array([True, False]), np.array([0.1, np.nan])))
