"""Estimates of attacks, next to numbers derived by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ramet.leak.estimates import paired
from ramet.leak.intervals import (
    Ranked,
    auc,
    auc_estimate,
    epsilon_bound,
    f1,
    f1_estimate,
    hit_rate,
    mean,
    proportion,
)
from ramet.leak.membership import Expected


def ranked(positives: list[float], negatives: list[float]) -> Ranked:
    return Ranked(np.array(positives), np.array(negatives))


def test_auc_counts_pairs_in_the_right_order_and_ties_half() -> None:
    # 3 > 1, 3 > 2, 2 > 1, 2 = 2: 3.5 of 4 pairs
    assert auc(ranked([3, 2], [1, 2])) == 3.5 / 4


def test_auc_of_several_sites_is_weighted_by_samples() -> None:
    sites = [ranked([1, 1, 1], [0]), ranked([0], [1])]  # 1.0 with 4 samples, 0.0 with 2
    assert auc_estimate(sites).value == pytest.approx(4 / 6)


def test_an_auc_of_one_has_an_interval() -> None:
    found = auc_estimate([ranked([2.0] * 10, [1.0] * 10)])
    assert found.high == 1.0
    assert 0.6 < found.low < 1.0


def test_intervals_contain_one_half_in_19_of_20_draws_of_scores_that_tell_nothing() -> None:
    draw, trials = np.random.default_rng(1), 400
    inside = 0
    for _ in range(trials):
        sites = [Ranked(draw.normal(size=40), draw.normal(size=25)) for _ in range(3)]
        found = auc_estimate(sites)
        inside += found.low <= 0.5 <= found.high
    assert 0.92 <= inside / trials <= 0.98


def drawn_ratios(draw: np.random.Generator, gain: float) -> Ranked:
    """Of a site whose margins grow by ``gain`` if a sample was trained with, from 4 shadow runs."""
    members, others, runs = 60, 40, 4
    difficulty = draw.normal(0, 3, members + others)
    half = draw.permuted(np.arange(members + others)) < 50
    included = np.stack([half, ~half, ~half, half])
    margins = difficulty + draw.normal(size=(runs, members + others)) + gain * included
    target = difficulty + draw.normal(size=members + others)
    target[:members] += gain
    return Ranked(*np.split(Expected.of(margins, included).ratios(target), [members]))


def test_likelihood_ratios_of_margins_that_tell_nothing_contain_one_half() -> None:
    draw, trials = np.random.default_rng(3), 200
    found = [auc_estimate([drawn_ratios(draw, 0.0)]) for _ in range(trials)]
    assert sum(one.low <= 0.5 <= one.high for one in found) / trials >= 0.91


def test_likelihood_ratios_see_through_the_difficulty_of_samples() -> None:
    """The loss alone would give an AUC of 0.67: 2 / √(2 · (9 + 1)) standard deviations apart."""
    draw = np.random.default_rng(4)
    found = np.mean([auc(drawn_ratios(draw, 2.0)) for _ in range(20)])
    assert found > 0.8


def test_hit_rate_allows_one_false_alarm_in_a_hundred() -> None:
    negatives = [*range(100)]  # one alarm is allowed: the threshold is 98
    found = hit_rate([ranked([98.5, 99.5, 97.5, 1.0], [*map(float, negatives)])])
    assert found.value == 0.5
    assert found.low < 0.5 < found.high


@pytest.mark.parametrize("negatives", [30, 300])
def test_a_hit_rate_without_knowledge_seldom_exceeds_one_percent(negatives: int) -> None:
    """Also if a threshold from few negatives lets more than 1 % through by accident."""
    draw, trials = np.random.default_rng(2), 200
    drawn = [Ranked(draw.normal(size=200), draw.normal(size=negatives)) for _ in range(trials)]
    assert sum(hit_rate([one]).low > 0.01 for one in drawn) / trials <= 0.025


def test_clopper_pearson_equals_the_textbook() -> None:
    found = proportion(0, 10)  # 1 - 0.025^(1/10)
    assert found.low == 0.0
    assert found.high == pytest.approx(1 - 0.025**0.1)


def test_mean_has_students_interval() -> None:
    found = mean([1.0, 3.0])  # standard error 1, t of one degree of freedom 12.706
    assert (found.low, found.value, found.high) == pytest.approx(
        (2 - 12.7062, 2.0, 2 + 12.7062), 1e-4
    )


def test_f1_counts_hits_twice() -> None:
    truth, found = np.array([True, True, False]), np.array([True, False, True])
    assert f1(truth, found) == 2 * 1 / (2 + 2)
    assert f1_estimate(truth, truth).value == 1.0


def test_epsilon_is_bounded_by_the_rate_of_correct_guesses() -> None:
    # 95 % sure that the rate is above 0.05^(1/100) if all of 100 guesses are correct
    rate = 0.05**0.01
    assert epsilon_bound(100, 100).value == pytest.approx(math.log(rate / (1 - rate)))
    assert epsilon_bound(50, 100).value == 0.0
    assert 0 < epsilon_bound(100, 100, 1e-5).value < epsilon_bound(100, 100).value


def test_the_bound_exceeds_the_true_epsilon_in_one_of_20_audits_at_most() -> None:
    draw, epsilon, trials = np.random.default_rng(0), 1.0, 400
    rate = math.exp(epsilon) / (1 + math.exp(epsilon))
    over = sum(
        epsilon_bound(int(correct), 60).value > epsilon
        for correct in draw.binomial(60, rate, size=trials)
    )
    assert over / trials <= 0.07


def test_finding_nothing_is_no_leak_where_chance_is_below_zero() -> None:
    found = paired([0.0, 0.0, 0.0], [-0.8, 0.6, -0.1], least=-1.0)
    assert found.value == 0
    assert found.low < -0.1 < found.high
