"""Noise from the operating system has the distribution that the accountant assumes."""

from __future__ import annotations

import pytest
import torch
from scipy.stats import kstest

from ramet.privacy.draws import Draws, SeededDraws, SystemDraws


@pytest.mark.parametrize("draws", [SystemDraws(), SeededDraws(torch.Generator().manual_seed(1))])
def test_normal_numbers_are_normal(draws: Draws) -> None:
    drawn = draws.normal((100, 500))
    assert drawn.shape == (100, 500)
    assert kstest(drawn.flatten().numpy(), "norm").pvalue > 1e-6
    correlation = torch.corrcoef(torch.stack([drawn[:50].flatten(), drawn[50:].flatten()]))[0, 1]
    assert abs(float(correlation)) < 0.04  # 6 standard deviations


@pytest.mark.parametrize("draws", [SystemDraws(), SeededDraws(torch.Generator().manual_seed(1))])
def test_units_are_chosen_with_the_probability(draws: Draws) -> None:
    chosen = draws.chosen(100_000, 0.3)
    assert float(chosen.double().mean()) == pytest.approx(0.3, abs=0.01)
    assert bool(draws.chosen(100, 1.0).all())


def test_the_system_never_draws_the_same_twice() -> None:
    assert not torch.equal(SystemDraws().normal((8,)), SystemDraws().normal((8,)))


def test_odd_and_empty_shapes() -> None:
    assert SystemDraws().normal((3,)).shape == (3,)
    assert SystemDraws().normal(()).shape == ()
    assert SeededDraws(torch.Generator()).normal(()).shape == ()
    assert SystemDraws().normal((0, 4)).shape == (0, 4)
