from __future__ import annotations

import numpy as np
import pytest

from ramet.metrics.bootstrap import bootstrap_interval
from ramet.metrics.classification import accuracy, roc_auc

LABELS = np.arange(400) % 2
RIGHT, WRONG = np.eye(2)[LABELS], np.eye(2)[1 - LABELS]


def test_classifiers_that_never_differ_have_an_interval_without_width() -> None:
    assert bootstrap_interval(LABELS, RIGHT, RIGHT, accuracy) == (0.0, 0.0)
    assert bootstrap_interval(LABELS, WRONG, RIGHT, roc_auc) == (1.0, 1.0)


def test_the_interval_has_the_width_of_the_sampling_error() -> None:
    """Right on 80 more of 400: the gain is 0.2, its standard error sqrt(0.2 · 0.8 / 400) = 0.02."""
    better = np.where(np.arange(400)[:, None] < 80, RIGHT, WRONG)
    low, high = bootstrap_interval(LABELS, WRONG, better, accuracy)
    assert low == pytest.approx(0.2 - 1.96 * 0.02, abs=0.006)
    assert high == pytest.approx(0.2 + 1.96 * 0.02, abs=0.006)
    assert bootstrap_interval(LABELS, WRONG, better, accuracy) == (low, high)  # repeatable
