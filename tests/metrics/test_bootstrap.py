from __future__ import annotations

import numpy as np
import pytest

from ramet.metrics.bootstrap import bootstrap_error
from ramet.metrics.classification import METRICS

accuracy, roc_auc = METRICS["accuracy"], METRICS["roc-auc"]
LABELS = np.arange(400) % 2
RIGHT, WRONG = np.eye(2)[LABELS], np.eye(2)[1 - LABELS]
BETTER = np.where(np.arange(400)[:, None] < 80, RIGHT, WRONG)


def test_classifiers_that_never_differ_have_no_error() -> None:
    assert bootstrap_error(LABELS, [(RIGHT, RIGHT)], accuracy) == 0
    assert bootstrap_error(LABELS, [(WRONG, RIGHT)], roc_auc) == 0


def test_the_error_is_that_of_sampling() -> None:
    """Right on 80 more of 400: the gain is 0.2, its standard error sqrt(0.2 · 0.8 / 400) = 0.02."""
    error = bootstrap_error(LABELS, [(WRONG, BETTER)], accuracy)
    assert error == pytest.approx(0.02, abs=0.0015)
    assert bootstrap_error(LABELS, [(WRONG, BETTER)], accuracy) == error  # repeatable


def test_the_error_of_the_mean_over_pairs() -> None:
    """One pair gains 0.2, the other loses the same on the same samples: the mean never varies."""
    both = [(WRONG, BETTER), (BETTER, WRONG)]
    assert bootstrap_error(LABELS, both, accuracy) == pytest.approx(0)


def test_one_sample_says_nothing() -> None:
    assert bootstrap_error(LABELS[:1], [(RIGHT[:1], WRONG[:1])], accuracy) is None
