from __future__ import annotations

import pytest

from ramet.studies.finished_run import Draw
from ramet.studies.gains import Gain, paired_gain


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
    assert paired_gain(splits, None) == Gain(0.02)  # sizes unknown
    assert paired_gain({Draw(1, 1): 0.4}, 0.1).low is None
    equal = {Draw(1, 1): 0.95 - 0.9, Draw(1, 2): 0.9 - 0.85}  # they differ in the last bits
    assert paired_gain(equal, 0.1).low is None
    assert paired_gain(equal, 0.1).verdict == "undecided"
