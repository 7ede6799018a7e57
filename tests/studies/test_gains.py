from __future__ import annotations

from statistics import fmean, stdev

import pytest
from scipy.stats import ttest_1samp, ttest_ind, ttest_rel

from ramet.studies.finished_run import Draw
from ramet.studies.gains import Gain, Mean, between, holm, paired_gain


def test_over_splits_the_variance_is_corrected_for_their_overlap() -> None:
    gains = {Draw(split, 1): split / 100 for split in (1, 2, 3, 4, 5)}
    # The variance is 0.00025. With 1 test sample for 3 training samples, the standard error is
    # sqrt(0.00025 · (1/5 + 1/3)) = 0.011547; t(0.975, 4) = 2.776445; half the width is 0.032060.
    gain = paired_gain(gains, 1 / 3)
    assert gain.mean == pytest.approx(0.03)
    assert gain.low == pytest.approx(-0.002060, abs=1e-6)
    assert gain.high == pytest.approx(0.062060, abs=1e-6)
    assert gain.p_value == pytest.approx(0.0602, abs=1e-4)
    assert gain.verdict == "undecided"


def test_the_seeds_of_a_split_count_as_one() -> None:
    means = {Draw(split, 1): split / 100 for split in (1, 2, 3, 4, 5)}
    both = {Draw(d.split_seed, s): g + (s - 1.5) / 50 for d, g in means.items() for s in (1, 2)}
    expected, found = paired_gain(means, 1 / 3), paired_gain(both, 1 / 3)
    assert found.mean == pytest.approx(expected.mean)
    assert found.low == pytest.approx(expected.low)


def test_over_the_seeds_of_one_split_it_is_the_usual_t_test() -> None:
    gains = {Draw(123, seed): seed / 100 for seed in (1, 2, 3, 4, 5)}
    # sqrt(0.00025 / 5) = 0.0070711; half the width is 0.019632.
    gain = paired_gain(gains, 1 / 3)
    assert gain.low == pytest.approx(0.010368, abs=1e-6)
    assert gain.high == pytest.approx(0.049632, abs=1e-6)
    assert gain.verdict == "helps"
    assert paired_gain({draw: -value for draw, value in gains.items()}, None).verdict == "hurts"


def test_there_is_no_interval_that_nothing_supports() -> None:
    splits = {Draw(split, 1): split / 100 for split in (1, 2, 3)}
    assert paired_gain(splits, None) == Gain(0.02, pairs=3)  # sizes unknown
    assert paired_gain({Draw(1, 1): 0.4}, 0.1).low is None
    equal = {Draw(1, 1): 0.95 - 0.9, Draw(1, 2): 0.9 - 0.85}  # they differ in the last bits
    assert paired_gain(equal, 0.1).low is None
    assert paired_gain(equal, 0.1).verdict == "undecided"


def test_without_overlap_it_is_scipys_paired_t_test() -> None:
    ours, theirs = (0.81, 0.79, 0.83, 0.80, 0.84, 0.79), (0.78, 0.80, 0.79, 0.77, 0.81, 0.80)
    pairs = {Draw(123, seed): a - b for seed, (a, b) in enumerate(zip(ours, theirs, strict=True))}
    gain, expected = paired_gain(pairs, None), ttest_rel(ours, theirs)
    assert gain.p_value == pytest.approx(expected.pvalue)
    low, high = expected.confidence_interval(0.95)
    assert gain.low == pytest.approx(low)
    assert gain.high == pytest.approx(high)


def test_the_corrected_test_is_scipys_with_a_larger_error() -> None:
    values = [0.01, 0.03, -0.01, 0.04, 0.02, 0.05]
    gain = paired_gain({Draw(split, 1): value for split, value in enumerate(values)}, 1 / 8)
    plain = ttest_1samp(values, 0.0)
    # the variance of the mean is multiplied by (1/6 + 1/8) / (1/6) = 1.75
    assert gain.error == pytest.approx(0.02 / plain.statistic * 1.75**0.5 * gain.mean / 0.02)
    assert gain.p_value == pytest.approx(2 * _upper_tail(plain.statistic / 1.75**0.5, 5))


def _upper_tail(statistic: float, freedom: int) -> float:
    from scipy.stats import t

    return float(t.sf(statistic, freedom))


def test_below_five_pairs_there_is_no_p_value() -> None:
    four = {Draw(split, 1): split / 100 for split in (1, 2, 3, 4)}
    gain = paired_gain(four, 1 / 8)
    assert (gain.pairs, gain.p_value, gain.equivalence(0.5)) == (4, None, None)
    assert gain.low is not None
    assert paired_gain({**four, Draw(5, 1): 0.05}, 1 / 8).p_value is not None
    twice = {Draw(split, seed): split / 100 for split in (1, 2, 3, 4) for seed in (1, 2)}
    assert paired_gain(twice, 1 / 8).p_value is None  # seeds of a split are no further pairs


def test_the_effect_is_in_standard_deviations_of_the_differences() -> None:
    gain = paired_gain({Draw(123, seed): seed / 100 for seed in (1, 2, 3, 4, 5)}, None)
    assert gain.effect == pytest.approx(0.03 / 0.015811, rel=1e-4)


def test_a_claim_is_decided_if_the_interval_is_on_one_side() -> None:
    gain = Gain(0.03, low=0.01, high=0.05)
    assert gain.at_least(0.0) == "holds"
    assert gain.at_least(0.03) == "undecided"
    assert gain.at_least(0.06) == "fails"
    assert Gain(0.5).at_least(0.0) == "undecided"  # one pair decides nothing


def test_equivalence_is_two_one_sided_tests() -> None:
    values = [0.01, -0.01, 0.02, -0.02, 0.0, 0.01]
    gain = paired_gain({Draw(123, seed): value for seed, value in enumerate(values)}, None)
    not_lower = ttest_1samp(values, -0.02, alternative="greater").pvalue
    not_higher = ttest_1samp(values, 0.02, alternative="less").pvalue
    assert gain.equivalence(0.02) == pytest.approx(max(not_lower, not_higher))


def test_holm_multiplies_the_smallest_most() -> None:
    # 4 · 0.005, 3 · 0.01, 2 · 0.03, 1 · 0.04; the last is raised to the one before it
    adjusted = holm([0.01, 0.04, 0.03, None, 0.005])
    assert adjusted == [pytest.approx(value) for value in (0.03, 0.06, 0.06)] + [
        None,
        pytest.approx(0.02),
    ]
    assert holm([0.6, 0.7]) == [1.0, 1.0]
    assert holm([0.02, 0.02]) == [0.04, 0.04]
    assert holm([None]) == [None]


def test_how_many_pairs_would_decide() -> None:
    gains = {Draw(split, 1): one for split, one in enumerate((0.00, 0.02, 0.04, -0.01, 0.05), 1)}
    gain = paired_gain(gains, 0.0)  # mean 0.02, deviation 0.02550
    assert gain.verdict == "undecided"
    # 9 pairs: 2.306 * 0.02550 / 3 = 0.0196; 8 pairs: 2.365 * 0.02550 / 2.828 = 0.0213
    assert gain.pairs_to_decide(0) == 9
    assert paired_gain(gains, 0.5).pairs_to_decide(0) is None  # 2.01 * 0.02550 * sqrt(0.52) = 0.037
    assert Gain(0.5).pairs_to_decide(0) == 5


def test_welchs_interval() -> None:
    ours, theirs = (3.0, 5.0, 4.0, 6.0), (1.0, 2.0, 4.0, 2.0, 1.0)
    expected = ttest_ind(ours, theirs, equal_var=False).confidence_interval()
    means = (Mean(fmean(values), stdev(values), len(values)) for values in (ours, theirs))
    found = between(*means)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))
    fixed = between(Mean(4.5, 1.0, 4), Mean(2.0, 0.0, 5))  # 3.182 * 0.5
    assert found.mean == fixed.mean == 2.5
    assert fixed.low == pytest.approx(2.5 - 3.182446 * 0.5)
