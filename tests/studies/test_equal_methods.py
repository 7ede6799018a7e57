"""How often two methods that are equally good are said to help or to hurt a site."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pytest

from ramet.studies.finished_run import Draw
from ramet.studies.gains import Gain, paired_gain

Numbers = npt.NDArray[np.float64]
Classes = npt.NDArray[np.int64]
SITES = 400
RATIO = 1 / 3  # 6:2:2


def drawn(rng: np.random.Generator, samples: int) -> tuple[Numbers, Classes]:
    """Two features that are equally informative."""
    classes = (rng.random(samples) < 0.4).astype(np.int64)
    return rng.normal(size=(samples, 2)) + 1.2 * classes[:, None], classes


def trained(
    rng: np.random.Generator, features: Numbers, classes: Classes, noise: float
) -> Callable[[Numbers], Classes]:
    """The class with the nearest mean, which training finds up to some noise."""
    means = np.stack([features[classes == value].mean(axis=0) for value in (0, 1)])
    means = means + noise * rng.normal(size=means.shape)
    return lambda new: ((new[:, None] - means) ** 2).sum(axis=2).argmin(axis=1)


def gain_of_equals(
    rng: np.random.Generator, samples: int, seeds: int, noise: float, same_method: bool
) -> Gain:
    """One site, one split: a method against itself, or two that use one feature each."""
    features, classes = drawn(rng, samples)
    train, test = np.split(rng.permutation(samples)[: -samples // 5], [samples * 3 // 5])
    columns = ([0, 1], [0, 1]) if same_method else ([0], [1])

    def right(column: list[int]) -> Numbers:
        model = trained(rng, features[train][:, column], classes[train], noise)
        correct: Numbers = (model(features[test][:, column]) == classes[test]).astype(float)
        return correct

    per_sample = np.stack([right(columns[1]) - right(columns[0]) for _ in range(seeds)])
    found = {Draw(1, seed): float(one.mean()) for seed, one in enumerate(per_sample)}
    error = float(per_sample.mean(axis=0).std(ddof=1)) / np.sqrt(len(test))
    return paired_gain(found, RATIO).widened(error, len(test), RATIO)


@pytest.mark.parametrize("same_method", [True, False])
@pytest.mark.parametrize("samples", [60, 300])
@pytest.mark.parametrize("noise", [0.1, 0.6])
@pytest.mark.parametrize("seeds", [3, 5])
def test_equal_methods_are_told_apart_at_no_more_than_5_percent_of_sites(
    seeds: int, noise: float, samples: int, same_method: bool
) -> None:
    rng = np.random.default_rng(seeds)
    gains = [gain_of_equals(rng, samples, seeds, noise, same_method) for _ in range(SITES)]
    decided = np.mean([gain.verdict != "undecided" for gain in gains])
    assert decided <= 0.05
