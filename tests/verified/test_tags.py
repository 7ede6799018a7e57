"""Tags of sums, with numbers that are computed again with Python's integers."""

from __future__ import annotations

import numpy as np
import pytest

from ramet.payload import Payload
from ramet.rules.fold import Sums
from ramet.rules.merging import WeightedMean
from ramet.secure.tags import PRIME, _joined, _products, is_sum, tag_of

KEY = bytes(range(32))
SITES = ("a", "b", "c", "d")


def terms(count: int = 4) -> list[dict[str, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [
        {"w": rng.integers(-(2**60), 2**60, (30, 7)), "b": rng.integers(-5, 5, 3)}
        for _ in range(count)
    ]


def test_products_are_exact() -> None:
    rng = np.random.default_rng(1)
    factors = rng.integers(0, 2**16, (1000, 8), dtype=np.uint16)
    integers = rng.integers(-(2**63), 2**63 - 1, 1000)
    expected = sum(
        int(value) * sum(int(limb) << (16 * place) for place, limb in enumerate(row))
        for value, row in zip(integers, factors, strict=True)
    )
    assert _joined(_products(integers, factors)) == expected


def test_the_sum_of_tags_belongs_to_the_sum_of_terms() -> None:
    given = terms()
    tags = [tag_of(one, KEY, site, 3, "training") for site, one in zip(SITES, given, strict=True)]
    total = {name: np.sum([one[name] for one in given], axis=0) for name in ("w", "b")}
    assert is_sum(total, tags, KEY, SITES, 3, "training")
    assert not is_sum(total, tags, KEY, SITES, 4, "training")
    assert not is_sum(total, tags, KEY, SITES[1:], 3, "training")
    assert not is_sum(total, tags[1:], KEY, SITES, 3, "training")
    assert not is_sum(total, tags, bytes(32), SITES, 3, "training")
    for name in total:
        for step in (1, -1, 2**31, 2**62):
            wrong = {**total, name: total[name].copy()}
            wrong[name].flat[0] += step
            assert not is_sum(wrong, tags, KEY, SITES, 3, "training")


def test_the_parts_of_a_float_sum_are_exact_integers() -> None:
    rng = np.random.default_rng(2)
    replies = [
        Payload({"w": rng.normal(size=(50, 3)).astype(np.float32)}, {"weight": float(n)})
        for n in (3, 17, 120)
    ]
    whole = Sums({"parameters/": WeightedMean()})
    tags = []
    for site, reply in zip("abc", replies, strict=True):
        whole.add(site, reply)
        own = Sums({"parameters/": WeightedMean()})
        own.add(site, reply)
        tags.append(tag_of(own.integers(), KEY, site, 1, "training"))
    assert is_sum(whole.integers(), tags, KEY, "abc", 1, "training")


def test_a_member_can_check_a_guess_of_the_term_of_another() -> None:
    """The key opens every pad; docs/security.md names it."""
    right, wrong = terms(2)
    tag = tag_of(right, KEY, "b", 3, "training")
    assert is_sum(right, [tag], KEY, ["b"], 3, "training")
    assert not is_sum(wrong, [tag], KEY, ["b"], 3, "training")


def test_a_tag_alone_says_nothing_of_its_term() -> None:
    """With pads of different exchanges, the same term has tags that look uniform."""
    one = {"w": np.zeros(4, np.int64)}
    tags = np.array([tag_of(one, KEY, "a", number, "t") / PRIME for number in range(2000)])
    counts = np.histogram(tags, bins=10, range=(0, 1))[0]
    chi = ((counts - 200) ** 2 / 200).sum()
    assert chi < 27.9  # the 99.9th percentile with 9 degrees of freedom


@pytest.mark.parametrize("size", [1, 2**20 + 3])
def test_long_arrays_are_cut(size: int) -> None:
    ones = {"w": np.ones(size, np.int64)}
    tags = [tag_of(ones, KEY, site, 1, "t") for site in "ab"]
    assert is_sum({"w": 2 * ones["w"]}, tags, KEY, "ab", 1, "t")
