"""Sums of columns as whole numbers: exact, and the same as without masks."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest
from numpy.typing import NDArray

from ramet.data.own.moments import Moments, pooled
from ramet.data.own.preparation import ColumnSums, Pooled, SiteSums, agreed
from ramet.data.own.whole_sums import RARE, pooled_sums, whole_sums
from ramet.errors import RametError

AGE = "patient.age"


def moments(values: list[float]) -> Moments:
    total = math.fsum(values)
    mean = total / len(values)
    return Moments(len(values), total, math.fsum((value - mean) ** 2 for value in values))


def site(values: list[float], rare: bool = False) -> SiteSums:
    own = moments(values) if values else Moments(0, 0.0, 0.0)
    facts = {"count": own.count, "total": own.total, "squares": own.squares}
    age = ColumnSums(kind="number", marked=True, **facts)
    return SiteSums(types={"patient": {"age": age}}, rare_classes=rare)


def total_of(sites: dict[str, SiteSums]) -> dict[str, NDArray[np.uint64]]:
    """What the server learns of what each site adds."""
    parts = [whole_sums(own, [AGE]) for own in sites.values()]
    return {name: np.sum([part[name] for part in parts], axis=0) for name in parts[0]}


def test_totals_are_rounded_once_at_any_scale() -> None:
    draw = random.Random(0)
    for _ in range(100):
        parts = [draw.choice([-1, 1]) * 10.0 ** draw.uniform(-40, 38) for _ in range(9)]
        sites = {str(n): site([value]) for n, value in enumerate(parts)}
        found = pooled_sums(total_of(sites), 9).moments[AGE]
        assert (found.count, found.total) == (9, math.fsum(parts))


def test_far_from_zero_no_digit_of_the_spread_is_lost() -> None:
    """A variance of 2/3 around 1e15: squares about zero alone have no such digit in float64."""
    sites = {name: site([1e15 + n]) for n, name in enumerate("abc")}
    found = pooled_sums(total_of(sites), 3).moments[AGE]
    assert (found.mean, found.squares) == (1e15 + 1, 2.0)


def test_the_preparation_is_that_of_sums_in_the_open() -> None:
    draw = random.Random(1)
    for rare in (False, True):
        values = [[draw.gauss(50, 17) for _ in range(n)] for n in (50, 33, 41)]
        sites = {name: site(own, rare) for name, own in zip("abc", values, strict=True)}
        found = pooled_sums(total_of(sites), 3)
        assert found == Pooled.of(sites)
        assert agreed(sites, found) == agreed(sites)
        joined = moments([value for own in values for value in own])
        assert found.moments[AGE].scale == pytest.approx(joined.scale, rel=1e-14)
    hidden = {name: own.without_numbers() for name, own in sites.items()}
    assert agreed(hidden, found) == agreed(sites)
    assert not hidden["a"].rare_classes
    assert hidden["a"].types["patient"]["age"] == ColumnSums(kind="number", marked=True)


def test_a_constant_column_has_no_scale() -> None:
    sites = {name: site([0.1] * count) for name, count in zip("abc", (3, 7, 11), strict=True)}
    assert pooled_sums(total_of(sites), 3).moments[AGE].scale == 0.0
    assert pooled([moments([0.1] * 3), moments([0.1] * 7)]).scale == 0.0


def test_a_column_that_no_site_has_often_enough() -> None:
    sites = {name: site([]) for name in "abc"}
    prepared = agreed(sites, pooled_sums(total_of(sites), 3)).types["patient"]["age"]
    assert (prepared.mean, prepared.scale) == (0.0, 1.0)


def test_sums_that_cannot_be_right_are_refused() -> None:
    total = total_of({name: site([1.0, 2.0, 4.0]) for name in "abc"})
    assert pooled_sums(total, 3).moments[AGE].count == 9
    with pytest.raises(RametError, match=r"masks of the sites' sums .* do not cancel out"):
        pooled_sums({**total, RARE: total[RARE] + np.uint64(2**60)}, 3)
    for place in (66, 132):  # the highest limbs of total and squares
        larger = total[AGE].copy()
        larger[place] += np.uint64(2**40)
        with pytest.raises(RametError, match=r"sums of patient\.age over all sites are not"):
            pooled_sums({**total, AGE: larger}, 3)
