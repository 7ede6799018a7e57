"""Simulations in which the truth is known: how often the intervals contain it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from ramet.studies.finished_run import Draw
from ramet.studies.gains import Gain, paired_gain

SIMULATIONS = 1000
Numbers = npt.NDArray[np.float64]


def gain_over(splits: Numbers, test_to_train: float) -> Gain:
    """The gain from differences by split, or by split and seed."""
    by_seed = splits.reshape(len(splits), -1)
    found = {
        Draw(split, seed): float(one)
        for split, seeds in enumerate(by_seed)
        for seed, one in enumerate(seeds)
    }
    return paired_gain(found, test_to_train)


def coverage(gains: Iterable[Gain], truth: float) -> float:
    inside = [
        gain.low is not None and gain.high is not None and gain.low <= truth <= gain.high
        for gain in gains
    ]
    return float(np.mean(inside))


def correlated(rng: np.random.Generator, splits: int, test_to_train: float) -> Numbers:
    """Differences around 0 whose correlation is test / (test + train), as the test assumes."""
    shared = test_to_train / (1 + test_to_train)
    common, own = rng.normal(size=()), rng.normal(size=splits)
    differences: Numbers = np.sqrt(shared) * common + np.sqrt(1 - shared) * own
    return differences


@pytest.mark.parametrize(("splits", "test_to_train"), [(5, 1 / 8), (10, 1 / 8), (5, 1 / 4)])
def test_95_percent_intervals_contain_the_truth_95_times_in_100(
    splits: int, test_to_train: float
) -> None:
    rng = np.random.default_rng(splits)
    gains = [
        gain_over(correlated(rng, splits, test_to_train), test_to_train) for _ in range(SIMULATIONS)
    ]
    assert 0.93 <= coverage(gains, 0.0) <= 0.97
    claimed = np.mean([gain.at_least(0) == "holds" for gain in gains])
    assert claimed <= 0.05
    as_good = np.mean([(gain.equivalence(1e-9) or 1) < 0.05 for gain in gains])
    assert as_good == 0  # a margin of nothing cannot be met


def test_seeds_within_splits_are_averaged_first() -> None:
    rng = np.random.default_rng(1)
    gains = [
        gain_over(correlated(rng, 5, 1 / 8)[:, None] + rng.normal(size=(5, 3)), 1 / 8)
        for _ in range(SIMULATIONS)
    ]
    assert 0.93 <= coverage(gains, 0.0) <= 0.98  # the seeds' noise does not correlate


def centroids(features: Numbers, labels: Any, train: Any, test: Any) -> float:
    """Accuracy of the classifier that chooses the class with the nearest mean."""
    means = np.stack([features[train][labels[train] == value].mean(axis=0) for value in (0, 1)])
    distances = ((features[test][:, None] - means) ** 2).sum(axis=2)
    return float(np.mean(distances.argmin(axis=1) == labels[test]))


def differences_on_splits(
    rng: np.random.Generator, samples: int, splits: int, tested: int
) -> Numbers:
    """Two classifiers, with both features and with one, on random splits of one sample."""
    labels = np.arange(samples) % 2
    features = rng.normal(size=(samples, 2)) + labels[:, None]
    found = []
    for _ in range(splits):
        order = rng.permutation(samples)
        test, train = order[:tested], order[tested:]
        both = centroids(features, labels, train, test)
        found.append(both - centroids(features[:, :1], labels, train, test))
    return np.array(found)


@pytest.mark.parametrize(
    ("samples", "tested", "splits", "simulations"),
    [
        (100, 20, 5, 200),
        pytest.param(100, 20, 5, SIMULATIONS, marks=pytest.mark.thorough),
        pytest.param(90, 10, 10, SIMULATIONS, marks=pytest.mark.thorough),
    ],
)
def test_intervals_of_two_classifiers_on_overlapping_splits(
    samples: int, tested: int, splits: int, simulations: int
) -> None:
    """The truth is the mean difference of classifiers trained on this many fresh samples."""
    rng = np.random.default_rng(3)
    ones = [differences_on_splits(rng, samples, 1, tested) for _ in range(10 * simulations)]
    truth, ratio = float(np.mean(ones)), tested / (samples - tested)
    gains = [
        gain_over(differences_on_splits(rng, samples, splits, tested), ratio)
        for _ in range(simulations)
    ]
    slack = 0.02 if simulations < SIMULATIONS else 0.0  # the count varies more with fewer
    assert 0.93 - slack <= coverage(gains, truth) <= 0.97 + slack
    assert np.mean([gain.at_least(truth) == "holds" for gain in gains]) <= 0.05


def test_with_fresh_data_for_each_split_the_correction_is_conservative() -> None:
    rng = np.random.default_rng(9)
    gains = [gain_over(rng.normal(size=5), 1 / 8) for _ in range(SIMULATIONS)]
    assert 0.95 <= coverage(gains, 0.0) <= 0.99
