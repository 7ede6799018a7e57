"""FedBuff against numbers that were derived by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from federations import (
    CLIMBERS,
    Climb,
    Federation,
    by_hand,
    payload,
    planted_run,
    stopped_and_resumed,
    with_all_states,
)
from ramet.engine.server.paced import Waiting
from ramet.engine.server.state import RunState
from ramet.engine.store.checkpoint import Snapshots
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.methods import fedbuff
from ramet.methods.fedbuff import StaleMean
from ramet.payload import Payload, digest
from ramet.randomness import Randomness
from ramet.rules.pace import FirstReplies
from servers import replied, server


def stale(merges: int, value: float) -> Payload:
    return replace(payload({"w": [value]}), numbers={"weight": 100.0, "stale": merges})


@pytest.mark.parametrize(("server_lr", "expected"), [(1.0, 14), (0.5, 12)])
def test_a_step_by_hand(server_lr: float, expected: float) -> None:
    """From 10, a's update is 4 and has missed nothing. b's is 8 and has missed 3 merges, so it
    counts 8 / sqrt(1 + 3) = 4. The step is their mean, 4, times the server's learning rate.
    """
    rule = StaleMean(server_lr=server_lr)
    state = rule.start({"w": np.array([10], np.float32)})
    merged = rule.merge(state, replied([("a", stale(0, 14)), ("b", stale(3, 18))]), server())
    assert merged.arrays["w"].tolist() == [expected]
    assert merged.arrays["w"].dtype == np.float32


def test_weights_do_not_matter() -> None:
    """The mean of 2 and 6 is 4, whatever the numbers of samples."""
    rule = StaleMean()
    state = rule.start({"w": np.zeros(1, np.float32)})
    light = replace(stale(0, 2), numbers={"weight": 1.0, "stale": 0})
    assert rule.merge(state, replied([("a", light), ("b", stale(0, 6))]), server()).arrays["w"] == 4


class Fixed(FirstReplies):
    """c takes two and a half times as long as a and b."""

    def duration(self, randomness: Randomness) -> float:
        return 2.5 if randomness.who == "c" else 1.0


def test_three_rounds_by_hand(tmp_path: Path) -> None:
    """Clients add 1, 2 and 4 to the slope, and two replies end a round.

    Round 1 (time 0 to 1): a and b, 0 + (1 + 2) / 2 = 1.5; c continues.
    Round 2 (1 to 2): a and b, 1.5 + 1.5 = 3.
    Round 3 (2 to 3): c arrives at 2.5 and has missed two merges, a at 3:
      3 + (4 / sqrt 3 + 1) / 2 = 4.6547005. b arrives at 3 too, but two replies are enough.
    """
    method = by_hand(fedbuff(Fixed(count=2)), Climb(), lr=1.0)
    federation = Federation(method, tmp_path, CLIMBERS)
    federation.run(3)
    slopes = federation.slopes("server", "slope", 3)
    assert slopes == [1.5, 3.0, pytest.approx(3 + (4 / 3**0.5 + 1) / 2)]


@pytest.mark.parametrize(
    ("activation", "reason"),
    [
        ("random-clients", "fedbuff asks clients again as soon as they have replied"),
        ("random-tensors", "fedbuff merges whole replies only"),
    ],
)
def test_it_has_no_activation(activation: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(RametError, match=reason):
        planted_run("fedbuff", tmp_path / "r", activation=activation)


def test_a_resumed_run_has_the_same_sha256_and_holds_the_same_replies(tmp_path: Path) -> None:
    whole = planted_run("fedbuff", tmp_path / "whole")
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256
    with_all_states(whole.folder, tmp_path / "again")
    steps = Snapshots(tmp_path / "stopped" / "server").steps()
    assert steps[-1] == 3
    for number in steps:
        saved = [Snapshots(tmp_path / run / "server").load(number) for run in ("again", "stopped")]
        one, two = (
            {client: (reply.asked, reply.due) for client, reply in waiting.held.items()}
            for waiting in (Waiting.of(RunState.restored(one)) for one in saved)
        )
        assert one == two
        assert len(one) == 1  # three clients, two of which end a round
        assert digest(saved[0].arrays) == digest(saved[1].arrays)


def test_clients_that_have_not_replied_are_not_asked_again(tmp_path: Path) -> None:
    """Two of three clients are merged in a round, and only these are asked in the next one."""
    whole = planted_run("fedbuff", tmp_path / "whole")
    records = RunFolder(whole.folder).records()
    assert [len(record.trained) for record in records] == [3, 2, 2]
    assert [record.bytes_up for record in records] == [3 * 608, 2 * 608, 2 * 608]
    assert [record.bytes_down for record in records] == [2 * 608, 2 * 608, 3 * 608]


def test_integers_are_rounded() -> None:
    reply = Payload({"batches": np.array([7])}, {"stale": 1})
    rule = StaleMean()
    after = rule.merge(Payload({"batches": np.array([7])}), replied([("a", reply)]), server())
    assert after.arrays["batches"].tolist() == [7]
