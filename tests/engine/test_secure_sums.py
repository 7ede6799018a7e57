"""Secure sums equal the plain sum over the survivors, for every tolerated set of drop-outs."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

from ramet.errors import RametError
from ramet.payload import digest
from ramet.secure.shares import threshold
from secure_sums import STEPS, TRAIN, Sums

FULL = os.environ.get("RAMET_FAULTS") == "full"


def tolerated(count: int, step: str) -> int:
    """How many of the sites may be missing in a step."""
    return count - threshold(count)


def cases(count: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    for step in STEPS:
        for missing in range(tolerated(count, step) + 1):
            for away in combinations(range(count), missing):
                yield step, away


def check(count: int, step: str, away: tuple[int, ...], folder: Path) -> None:
    sums = Sums(count, folder, last=1)
    missing = [sums.names[number] for number in away]
    sums.away = {step: missing}
    total, survivors = sums.run()
    expected = [n for n in sums.names if n not in missing] if step != "unmask" else sums.names
    assert [*survivors] == [*expected]
    assert digest(total) == digest(sums.plain(expected))


@pytest.mark.parametrize("count", [3, 4, 5, 6] if FULL else [3, 4, 5])
def test_every_tolerated_set_of_drop_outs(count: int, tmp_path: Path) -> None:
    """With five sites or more, every fifth set, unless all are asked for."""
    pace = 1 if FULL or count < 5 else 5
    for index, (step, away) in enumerate([*cases(count)][::pace]):
        check(count, step, away, tmp_path / str(index))


@pytest.mark.parametrize(("count", "sets"), [(10, 800), (20, 200)])
def test_random_drop_outs(count: int, sets: int, tmp_path: Path) -> None:
    draw = random.Random(count)
    for case in range(sets if FULL else 1):
        step = draw.choice(STEPS)
        missing = draw.randint(0, tolerated(count, step))
        check(count, step, tuple(draw.sample(range(count), missing)), tmp_path / str(case))


@pytest.mark.parametrize("step", STEPS)
def test_one_drop_out_too_many_unmasks_nothing(step: str, tmp_path: Path) -> None:
    sums = Sums(5, tmp_path)
    sums.away = {step: sums.names[: tolerated(5, step) + 1]}
    with pytest.raises(RametError, match=r"instead of 3"):
        sums.run()
    revealed = [reply for kind, _, reply in sums.replies if kind == "unmask"]
    assert len(revealed) < threshold(5)
    sums.away = {}
    if step == "keys":
        total, survivors = sums.run()
        assert digest(total) == digest(sums.plain(survivors))


def test_drop_outs_in_different_steps_of_one_round(tmp_path: Path) -> None:
    sums = Sums(7, tmp_path)
    sums.away = {TRAIN: sums.names[:2], "unmask": sums.names[3:4]}
    total, survivors = sums.run()
    assert [*survivors] == [*sums.names[2:]]
    assert digest(total) == digest(sums.plain(survivors))
    sums.away = {}
    total, survivors = sums.run(2)
    assert [*survivors] == [*sums.names]
    assert digest(total) == digest(sums.plain(sums.names, 2))


def test_a_site_drops_out_before_it_signs_the_survivors(tmp_path: Path) -> None:
    sums = Sums(7, tmp_path)
    sums.away = {TRAIN: sums.names[:1], "agree": sums.names[1:2], "unmask": sums.names[2:3]}
    total, survivors = sums.run()
    assert [*survivors] == [*sums.names[1:]]
    assert digest(total) == digest(sums.plain(survivors))
    sums.away = {}
    total, survivors = sums.run(2)
    assert digest(total) == digest(sums.plain(sums.names, 2))


def test_too_few_signatures_of_the_survivors_unmask_nothing(tmp_path: Path) -> None:
    sums = Sums(5, tmp_path)
    sums.away = {TRAIN: sums.names[:1], "agree": sums.names[1:3]}
    with pytest.raises(RametError, match=r"2 instead of 3 in agree"):
        sums.run()
    assert "unmask" not in [step for step, _, _ in sums.replies]


def test_without_drop_outs_a_round_has_one_more_exchange(tmp_path: Path) -> None:
    sums = Sums(3, tmp_path)
    sums.run()
    assert "agree" not in [step for step, _, _ in sums.messages]


def test_sent_again_a_reply_has_the_same_bytes(tmp_path: Path) -> None:
    sums = Sums(3, tmp_path)
    sums.agree()
    first = sums.train("site00", 1)
    del sums.sites  # a new process, which has only what is on disk
    again = sums.train("site00", 1)
    assert digest(first.arrays) == digest(again.arrays)
    assert sums.run()[1] == sums.names
