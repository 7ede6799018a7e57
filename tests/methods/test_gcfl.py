from __future__ import annotations

import json

import numpy as np
import pytest

from ramet.methods import gcfl, gcfl_plus
from ramet.methods.gcfl import ClusteredMean, Clustering, by_cosine, by_warping
from ramet.payload import Payload
from ramet.rules.merging import WeightedMean
from servers import replied, server

CLIENTS = ("a", "b", "c", "d")
# a and b move right, c and d move left; the mean update is 0
UPDATES = {"a": [1.0, 0.1], "b": [1.0, -0.1], "c": [-1.0, 0.1], "d": [-1.0, -0.1]}
WEIGHTS = {"a": 1, "b": 3, "c": 1, "d": 1}


def rule(quiet_rounds: int = 0, settled: float = 0.05) -> ClusteredMean:
    return ClusteredMean(Clustering(settled, 0.1, quiet_rounds, 5), by_cosine)


def replies(state: Payload, using: ClusteredMean) -> list[tuple[str, Payload]]:
    return [
        (
            client,
            Payload(
                {"w": using.send(state, client)["w"] + np.array(UPDATES[client], np.float32)},
                {"weight": WEIGHTS[client]},
            ),
        )
        for client in CLIENTS
    ]


def test_clients_with_opposite_updates_are_split_and_averaged_separately() -> None:
    using = rule()
    state = using.start({"w": np.zeros(2, np.float32)})
    after = using.merge(state, replied(replies(state, using)), server())
    assert json.loads(after.notes["clusters"]) == {"a": 0, "b": 0, "c": 1, "d": 1}
    # a and b: (1*[1, .1] + 3*[1, -.1]) / 4; c and d: ([-1, .1] + [-1, -.1]) / 2
    assert using.send(after, "b")["w"].tolist() == pytest.approx([1.0, -0.05])
    assert using.send(after, "c")["w"].tolist() == pytest.approx([-1.0, 0.0])
    again = using.merge(after, replied(replies(after, using)), server(2))
    assert json.loads(again.notes["clusters"]) == json.loads(after.notes["clusters"])


def test_no_split_in_quiet_rounds_or_while_the_mean_update_is_large() -> None:
    for using in (rule(quiet_rounds=1), rule(settled=1e-6)):
        state = using.start({"w": np.full(2, 5.0, np.float32)})
        shifted = [
            (client, Payload({"w": reply.arrays["w"] + np.float32(0.001)}, reply.numbers))
            for client, reply in replies(state, using)
        ]
        merged = using.merge(state, replied(shifted), server())
        plain = WeightedMean().merge(
            Payload({"w": state.arrays["0/w"]}), replied(shifted), server()
        )
        assert set(json.loads(merged.notes["clusters"]).values()) == {0}
        assert np.array_equal(using.send(merged, "a")["w"], plain.arrays["w"])


def test_the_result_does_not_depend_on_the_order_of_replies() -> None:
    using = rule()
    state = using.start({"w": np.zeros(2, np.float32)})
    one = using.merge(state, replied(replies(state, using)), server())
    other = using.merge(state, replied(reversed(replies(state, using))), server())
    assert one.notes == other.notes
    assert all(np.array_equal(one.arrays[name], other.arrays[name]) for name in one.arrays)


def test_an_absent_client_stays_in_its_cluster() -> None:
    using = rule()
    state = using.start({"w": np.zeros(2, np.float32)})
    split = using.merge(state, replied(replies(state, using)), server())
    without_d = [reply for reply in replies(split, using) if reply[0] != "d"]
    later = using.merge(split, replied(without_d), server(2))
    assert json.loads(later.notes["clusters"])["d"] == 1
    assert "norms/d" in later.arrays


def test_the_last_norms_are_in_the_state() -> None:
    using = ClusteredMean(Clustering(0.05, 0.1, 100, 2), by_warping)
    state = using.start({"w": np.zeros(2, np.float32)})
    for _ in range(3):
        state = using.merge(state, replied(replies(state, using)), server())
    assert state.arrays["norms/a"] == pytest.approx([np.hypot(1, 0.1)] * 2, rel=1e-5)


def test_warping_favours_sequences_of_similar_shape() -> None:
    rising, late, falling = np.array([1.0, 2, 3]), np.array([1.0, 1, 2]), np.array([3.0, 2, 1])
    weights = by_warping([], [rising, late, falling])
    assert weights[0, 1] > weights[0, 2]
    assert weights.min() >= 0


def test_gcfl_and_gcfl_plus_differ_in_the_merging_only() -> None:
    assert gcfl().shared == gcfl_plus().shared
    assert gcfl().merging != gcfl_plus().merging
