"""Sums of columns as whole numbers: exact, and the same as without masks."""

from __future__ import annotations

import math
import random

import numpy as np
import pytest

from ramet.data.own.preparation import ColumnSums, Pooled, SiteSums, agreed
from ramet.data.own.whole_sums import (
    RARE,
    Wholes,
    counted,
    pooled_sums,
    rounded,
    spreads,
    totals,
    whole,
)
from ramet.errors import RametError

AGE = "patient.age"


def site(values: list[float], rare: bool = False) -> SiteSums:
    total = math.fsum(values)
    mean = total / len(values) if values else 0.0
    squares = math.fsum((value - mean) ** 2 for value in values)
    age = ColumnSums(kind="number", marked=True, count=len(values), total=total, squares=squares)
    return SiteSums(types={"patient": {"age": age}}, rare_classes=rare)


def added(parts: list[Wholes]) -> Wholes:
    return {name: np.sum([part[name] for part in parts], axis=0) for name in parts[0]}


def under_masks(sites: dict[str, SiteSums]) -> Pooled:
    """What the server computes of what each site adds."""
    first = added([totals(own, [AGE]) for own in sites.values()])
    means = {name: own.mean for name, own in counted(first, len(sites)).items()}
    second = added([spreads(own, means) for own in sites.values()]) if means else {}
    return pooled_sums(first, second, len(sites))


def test_sums_are_rounded_once() -> None:
    draw = random.Random(0)
    for _ in range(200):
        values = [draw.choice([-1, 1]) * 10.0 ** draw.uniform(-300, 300) for _ in range(9)]
        limbs = np.sum([whole([value]) for value in values], axis=0)
        assert rounded(limbs) == math.fsum(values)
    assert rounded(whole([5e-324, -1.5, 2.0**1000])) == math.fsum([5e-324, -1.5, 2.0**1000])
    assert rounded(whole([])) == 0.0


def test_the_preparation_is_that_of_sums_in_the_open() -> None:
    draw = random.Random(1)
    for rare in (False, True):
        values = [[draw.gauss(50, 17) for _ in range(n)] for n in (50, 33, 41)]
        sites = {name: site(own, rare) for name, own in zip("abc", values, strict=True)}
        assert under_masks(sites) == Pooled.of(sites)
        assert agreed(sites, under_masks(sites)) == agreed(sites)
    hidden = {name: own.without_numbers() for name, own in sites.items()}
    assert agreed(hidden, under_masks(sites)) == agreed(sites)
    assert "age" in hidden["a"].types["patient"]
    assert not hidden["a"].rare_classes
    assert hidden["a"].types["patient"]["age"] == ColumnSums(kind="number", marked=True)


def test_a_column_that_no_site_has_often_enough() -> None:
    sites = {name: site([]) for name in "abc"}
    prepared = agreed(sites, under_masks(sites)).types["patient"]["age"]
    assert (prepared.mean, prepared.scale) == (0.0, 1.0)


def test_sums_that_cannot_be_right_are_refused() -> None:
    sites = {name: site([1.0, 2.0, 4.0]) for name in "abc"}
    first = added([totals(own, [AGE]) for own in sites.values()])
    second = added([spreads(own, {AGE: 7 / 3}) for own in sites.values()])
    assert pooled_sums(first, second, 3).moments[AGE].count == 9
    with pytest.raises(RametError, match=r"masks of the sites' sums .* do not cancel out"):
        pooled_sums({**first, RARE: first[RARE] + np.uint64(2**60)}, second, 3)
    negative = {AGE: whole([-1.0])}
    with pytest.raises(RametError, match=r"sums of patient\.age over all sites are not possible"):
        pooled_sums(first, negative, 3)
