"""The robust rules against values calculated by hand, and the methods that accept them."""

from __future__ import annotations

import random

import numpy as np
import pytest

from ramet.errors import RametError
from ramet.experiment import checked_settings, default_data
from ramet.experiment.named import merging_from
from ramet.methods import MERGES
from ramet.payload import Payload, digest
from ramet.rules.merging import Merging
from ramet.rules.robust import ClippedMean, Krum, Median, TrimmedMean
from servers import replied, server

START = {"w": np.zeros((1, 2), np.float32), "b": np.zeros(1, np.float32)}


def merged(rule: Merging, *rows: list[float]) -> list[float]:
    """Merge replies [b, w, w] and return the merge in that order."""
    replies = [
        (
            str(index),
            Payload(
                {"w": np.array([row[1:]], np.float32), "b": np.array(row[:1], np.float32)},
                {"weight": 10.0**index},  # must be ignored
            ),
        )
        for index, row in enumerate(rows)
    ]
    random.Random(0).shuffle(replies)
    after = rule.merge(rule.start(START), replied(replies), server()).arrays
    assert {name: (a.shape, a.dtype) for name, a in after.items()} == {
        name: (a.shape, a.dtype) for name, a in START.items()
    }
    return [*after["b"].tolist(), *after["w"][0].tolist()]


def test_the_coordinate_wise_median() -> None:
    assert merged(Median(), [1, 2, 9], [2, 9, 1], [1e8, -1e8, 2]) == [2, 2, 2]


def test_the_trimmed_mean() -> None:
    rows: list[list[float]] = [[1.0, 5, 0], [2, 4, 0], [3, 3, 0], [4, 2, 0], [1e8, -1e8, 7]]
    # one of five is trimmed at each end: (2+3+4)/3, (2+3+4)/3, 0
    assert merged(TrimmedMean(share=0.2), *rows) == [3, 3, 0]
    assert merged(TrimmedMean(share=0), *rows[:4]) == [2.5, 3.5, 0]
    assert merged(TrimmedMean(share=0.4), [1, 1, 1], [3, 3, 3]) == [2, 2, 2]


def test_krum_leaves_out_outliers() -> None:
    rows: list[list[float]] = [[1.0, 0, 0], [2, 0, 0], [3, 0, 0], [2, 0, 0], [-50, 0, 0]]
    # f = 1, so each is scored by its 2 nearest: 2, 1, 2, 1 and 51²+52²; the first four are kept
    assert merged(Krum(share=0.2), *rows) == [2, 0, 0]


def test_clipping_bounds_the_norms() -> None:
    # norms 5, 10, 1000: the median is 10, so (3 + 6 + 0)/3, (4 + 8 + 10)/3
    rows: list[list[float]] = [[3.0, 4, 0], [6, 8, 0], [0, 1000, 0]]
    assert merged(ClippedMean(), *rows) == pytest.approx([3, 22 / 3, 0])
    # to norm 1: (0.6 + 0.6 + 0)/3, (0.8 + 0.8 + 1)/3
    assert merged(ClippedMean(bound=1), *rows) == pytest.approx([0.4, 2.6 / 3, 0])


@pytest.mark.parametrize("name", [name for name in MERGES if name != "mean"])
def test_rules_ignore_the_order_and_keep_equal_replies(name: str) -> None:
    rule, rng = MERGES[name](), np.random.default_rng(3)
    start = {"w": rng.normal(size=40).astype(np.float32)}
    replies = [
        (str(k), Payload({"w": rng.normal(size=40).astype(np.float32)}, {"weight": k + 1}))
        for k in range(7)
    ]
    first = rule.merge(rule.start(start), replied(replies), server())
    again = rule.merge(rule.start(start), replied(replies[::-1]), server())
    assert digest(first.arrays) == digest(again.arrays)
    equal = [(str(k), replies[0][1]) for k in range(5)]
    merge = rule.merge(rule.start(start), replied(equal), server()).arrays["w"]
    assert np.allclose(merge, replies[0][1].arrays["w"], atol=1e-6)
    assert rule.merge(first, [], server()) == first


def test_rules_by_name() -> None:
    assert merging_from("trimmed-mean,share=0.3") == TrimmedMean(0.3)
    assert merging_from("clipped-mean,bound=2") == ClippedMean(2)
    with pytest.raises(RametError, match=r"unknown merge 'mediam'. Did you mean 'median'"):
        merging_from("mediam")
    with pytest.raises(RametError, match=r"--merge share=0.7"):
        merging_from("krum,share=0.7")


@pytest.mark.parametrize(
    ("method", "setting", "merge", "reason"),
    [
        ("gcfl", "tiny", "median", "gcfl needs its own merging rule .ClusteredMean."),
        ("fedlit", "planted", "krum", "fedlit needs its own merging rule .ChannelMean."),
        ("fedda", "planted-hetero", "median", "Median compares whole replies, but Restart asks"),
        ("local", "tiny", "median", "local shares nothing"),
        ("fedstar", "tiny", "krum", "Krum gives no protection with 3 clients; it needs at least 5"),
    ],
)
def test_invalid_combinations_are_refused(
    method: str, setting: str, merge: str, reason: str
) -> None:
    with pytest.raises(RametError, match=reason):
        checked_settings(method=method, setting=setting, rounds=1, merge=merge, data=default_data())
