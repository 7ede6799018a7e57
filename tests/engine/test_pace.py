"""Rounds that end with the first replies, with real clients that add 1, 2 and 4 to the slope."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from math import isnan
from pathlib import Path
from statistics import median

import pytest

from federations import Federation, Watched, climbing
from ramet.engine.server.paced import Waiting
from ramet.engine.store.checkpoint import Snapshots
from ramet.metrics import Round
from ramet.payload import Payload
from ramet.randomness import Randomness
from ramet.rules.merging import Reply, WeightedMean
from ramet.rules.pace import FirstReplies
from ramet.rules.server import Server


class SlowC(FirstReplies):
    """a and b take a time of 1, and c 2.5."""

    def duration(self, randomness: Randomness) -> float:
        return 2.5 if randomness.who == "c" else 1.0


class Reporting(WeightedMean):
    """Reports for each reply how many merges it has missed."""

    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        read = list(replies)
        merged = super().merge(state, read, server)
        stale = {f"{client} is stale": reply.numbers["stale"] for client, reply in read}
        return replace(merged, numbers=stale)


SLOW = climbing(merging=Reporting(), pace=SlowC(count=2))


def test_four_rounds_by_hand(tmp_path: Path) -> None:
    """Two replies end a round, and the mean is of equal weights.

    Round 1 (0 to 1): a and b, (1 + 2) / 2 = 1.5. c is due at 2.5, with an update of 4.
    Round 2 (1 to 2): a and b, (2.5 + 3.5) / 2 = 3.
    Round 3 (2 to 3): c at 2.5, which has missed two merges, and a at 3, before b in the alphabet:
      ((3 + 4) + (3 + 1)) / 2 = 5.5. b is due at 3 with an update of 2.
    Round 4 (3 to 4): a and c were asked; b at 3, which has missed one merge, and a at 4:
      ((5.5 + 2) + (5.5 + 1)) / 2 = 7. c is due at 5.5.
    """
    federation = Federation(SLOW, tmp_path)
    _, records = federation.run(4)
    assert federation.slopes("server", "slope", 4) == [1.5, 3, 5.5, 7]
    assert [record.merging for record in records] == [
        {"a is stale": 0, "b is stale": 0},
        {"a is stale": 0, "b is stale": 0},
        {"c is stale": 2, "a is stale": 0},
        {"b is stale": 1, "a is stale": 0},
    ]
    assert [[*record.trained] for record in records] == [
        ["a", "b", "c"],
        ["a", "b"],
        ["a", "b"],
        ["a", "c"],
    ]


def test_held_replies_are_in_the_snapshot(tmp_path: Path) -> None:
    federation = Federation(SLOW, tmp_path)
    federation.run(4)
    first, third, fourth = (Waiting.of(federation.state(number)) for number in (1, 3, 4))
    assert [waiting.clock for waiting in (first, third, fourth)] == [1, 3, 4]
    assert {c: (reply.asked, reply.due) for c, reply in first.held.items()} == {"c": (1, 2.5)}
    assert first.held["c"].update.arrays["slope"].tolist() == [4]
    assert first.held["c"].update.numbers["weight"] == 1
    assert [*third.held] == ["b"]
    assert third.held["b"].update.arrays["slope"].tolist() == [2]
    assert fourth.held["c"].due == 5.5


def test_a_slow_client_continues_from_what_it_was_sent(tmp_path: Path) -> None:
    """c is asked in rounds 1 and 4: its states are 4, and 5.5 + 4."""
    federation = Federation(SLOW, tmp_path)
    federation.run(4)
    steps = Snapshots(tmp_path / "c").steps()
    assert steps == [1, 4]
    assert [federation.saved("c", step).arrays["model/slope"].item() for step in steps] == [4, 9.5]


@pytest.mark.parametrize("spread", [0.0, 1.0])
def test_if_a_round_waits_for_all_it_is_that_of_fedavg(spread: float, tmp_path: Path) -> None:
    plain, plain_records = Federation(climbing(), tmp_path / "plain").run(3)
    paced = climbing(pace=FirstReplies(count=3, spread=spread))
    sha256, records = Federation(paced, tmp_path / "paced").run(3)
    assert sha256 == plain
    assert [r.evaluated for r in records] == [r.evaluated for r in plain_records]


@pytest.mark.parametrize("replies", [1, 4, 5, 6, 7, 8, 9, 11])
def test_a_run_that_was_killed_anywhere_has_the_same_sha256(replies: int, tmp_path: Path) -> None:
    """The rounds have 3, 2, 2 and 2 replies, and the closing exchange 3."""
    whole = Federation(SLOW, tmp_path / "whole")
    stopped = Federation(SLOW, tmp_path / "stopped")
    assert stopped.resumed(4, replies) == whole.run(4)[0]
    assert stopped.slopes("server", "slope", 4) == whole.slopes("server", "slope", 4)


def test_a_round_without_new_replies_merges_those_of_earlier_rounds(tmp_path: Path) -> None:
    """In round 2 there is only c, whose update of 4 has missed one merge: 1.5 + 4."""
    federation = Federation(SLOW, tmp_path)
    wire = Watched(federation, lambda client, message: message.numbers["round"] == 2)
    _, records = federation.run(3, wire)
    assert federation.slopes("server", "slope", 2) == [1.5, 5.5]
    assert records[1].merging == {"c is stale": 1}
    assert (records[1].failed, records[1].trained) == ({"a": "is away", "b": "is away"}, {})
    assert [*records[2].trained] == ["a", "b", "c"]
    curves = [Round.of(record) for record in records]  # nobody trained in round 2
    assert [isnan(one.loss or 0.0) for one in curves] == [False, True, False]


def test_every_client_gets_the_final_merge(tmp_path: Path) -> None:
    """Even c, whose last reply is not merged any more."""
    federation = Federation(SLOW, tmp_path)
    _, records = federation.run(4)
    assert {c: numbers["test"] for c, numbers in records[-1].evaluated.items()} == {
        "a": 7,
        "b": 7,
        "c": 7,
    }


def test_durations_are_drawn_from_the_seed() -> None:
    pace = FirstReplies(spread=1.0)
    durations = [pace.duration(Randomness(0, f"client {n}", 1)) for n in range(500)]
    assert durations[7] == pace.duration(Randomness(0, "client 7", 1))
    assert len({*durations}) == 500
    assert median(durations) == pytest.approx(1.0, abs=0.15)
    assert {FirstReplies(spread=0.0).duration(Randomness(n, "a", 1)) for n in range(9)} == {1.0}
