"""ε and noise, against dp-accounting and against the closed form of the Gaussian mechanism."""

from __future__ import annotations

import math

import pytest
from dp_accounting import (
    GaussianDpEvent,
    NeighboringRelation,
    PoissonSampledDpEvent,
    SelfComposedDpEvent,
)
from dp_accounting.pld import PLDAccountant
from scipy.stats import norm

from ramet.errors import RametError
from ramet.privacy.accounting import Mechanism, needed_noise, spent_epsilon
from ramet.privacy.budget import Budget


def test_epsilon_equals_dp_accounting() -> None:
    sampled = SelfComposedDpEvent(PoissonSampledDpEvent(0.1, GaussianDpEvent(2.0)), 60)
    whole = SelfComposedDpEvent(GaussianDpEvent(8.0), 5)
    theirs = PLDAccountant(NeighboringRelation.ADD_OR_REMOVE_ONE).compose(sampled).compose(whole)
    ours = spent_epsilon([(Mechanism(2.0, 0.1, 6), 10), (Mechanism(8.0), 5)], 1e-5)
    assert ours == pytest.approx(theirs.get_epsilon(1e-5), abs=1e-6)


@pytest.mark.parametrize(("sampling", "steps"), [(0.1, 60), (1.0, 10)])
def test_the_noise_keeps_to_the_budget_and_is_not_much_more(sampling: float, steps: int) -> None:
    noise = needed_noise(1.0, 1e-3, sampling, steps)
    assert 0.98 < spent_epsilon([(Mechanism(noise, sampling, steps), 1)], 1e-3) <= 1.0


def test_noise_of_one_step_by_hand() -> None:
    """For one Gaussian: δ = Φ(1/2σ - εσ) - e^ε Φ(-1/2σ - εσ) (Balle and Wang, 2018)."""
    noise, epsilon = needed_noise(1.0, 1e-3, 1.0, 1), 1.0
    below = norm.cdf(1 / (2 * noise) - epsilon * noise)
    above = norm.cdf(-1 / (2 * noise) - epsilon * noise)
    assert below - math.exp(epsilon) * above == pytest.approx(1e-3, rel=0.01)


def test_a_budget_that_protects_nobody_still_gets_noise() -> None:
    assert needed_noise(1e5, 1e-2, 1.0, 1) == 0.5


def test_a_budget_is_read_and_written() -> None:
    budget = Budget.parse("unit=graph,epsilon=4,delta=1e-5")
    assert budget == Budget("graph", 4.0, 1e-5, 1.0)
    assert Budget.parse(str(budget)) == budget


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("unit=node,epsilon=4,delta=1e-5", "unit=node is not offered: a node's features"),
        ("unit=link,epsilon=4,delta=1e-5,clip=2", "unit=link has no clip"),
        ("unit=planet,epsilon=4,delta=1e-5", "graph"),
        ("unit=graph,epsilon=0,delta=1e-5", "epsilon"),
        ("unit=graph,epsilon=inf,delta=1e-5", "epsilon"),
        ("unit=graph,epsilon=4,delta=1", "delta"),
        ("unit=graph,epsilon=4", "delta"),
        ("unit=graph,epsilon=4,delta=1e-5,clip=1e-40", "clip"),
        ("unit=graph,epsilon=4,delta=1e-5,clip=1e38", "clip"),
        ("unit=graph,epsilon=4,delta=1e-5,noise=3", "noise"),
        ("", "option of --dp"),
    ],
)
def test_a_wrong_budget_is_refused(text: str, message: str) -> None:
    with pytest.raises(RametError, match=message):
        Budget.parse(text)
