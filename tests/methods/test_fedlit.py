"""Grouping of channels whose order differs between clients."""

from __future__ import annotations

from itertools import permutations, product
from pathlib import Path

import numpy as np
import pytest

from ramet import run
from ramet.methods.fedlit import ChannelMean, cluster_centres, match_centres
from ramet.payload import Arrays, Payload
from servers import replied, server


def test_matching_finds_the_optimal_groups() -> None:
    rng = np.random.default_rng(0)
    true = rng.normal(size=(3, 4))
    orders = {"a": [2, 0, 1], "b": [0, 1, 2], "c": [1, 2, 0]}
    centres = {c: true[order] + 0.05 * rng.normal(size=(3, 4)) for c, order in orders.items()}
    present = {client: np.ones(3, dtype=bool) for client in centres}
    groups = match_centres(np.zeros((3, 4)), centres, present)

    def cost(grouping: dict[str, tuple[int, ...]]) -> float:
        total = 0.0
        for group in range(3):
            members = np.stack([centres[c][grouping[c].index(group)] for c in centres])
            total += float(((members - members.mean(axis=0)) ** 2).sum())
        return total

    actual = cost({client: tuple(group) for client, group in groups.items()})
    groupings = product(permutations(range(3)), repeat=3)
    best = min(cost(dict(zip("abc", grouping, strict=True))) for grouping in groupings)
    assert actual == pytest.approx(best)


def test_matching_ignores_kinds_without_links() -> None:
    true = np.eye(3)
    centres = {"a": true, "b": np.array([[9.0, 9, 9], [0, 0, 1.0], [9, 9, 9]])}
    present = {"a": np.ones(3, dtype=bool), "b": np.array([False, True, False])}
    groups = match_centres(true, centres, present)
    assert groups["b"][1] == 2
    assert sorted(groups["b"]) == [0, 1, 2]


def arrays(channel: list[float], nodes: list[float], centres: list[float], other: float) -> Arrays:
    channels = {f"channels.{i}.w": np.array([value], np.float32) for i, value in enumerate(channel)}
    return {
        **channels,
        "kinds.nodes": np.array(nodes, np.float32),
        "kinds.centres": np.array(centres, np.float32)[:, None],
        "project.w": np.array([other], np.float32),
    }


def test_channels_are_averaged_per_group_and_sent_in_the_clients_order() -> None:
    rule = ChannelMean()
    state = rule.start(arrays([0, 0], [0, 0], [0, 0], 0))
    replies = [
        ("a", Payload(arrays([1, 2], [10, 30], [1.0, 5.0], 1), {"weight": 1})),
        ("b", Payload(arrays([20, 10], [30, 10], [5.2, 1.2], 4), {"weight": 2})),
    ]
    after = rule.merge(state, replied(replies), server())
    backwards = rule.merge(state, replied(reversed(replies)), server())
    for name, array in after.arrays.items():
        assert np.array_equal(array, backwards.arrays[name])
    to_a, to_b = rule.send(after, "a"), rule.send(after, "b")
    assert to_a["channels.0.w"] == pytest.approx((10 * 1 + 10 * 10) / 20)
    assert to_a["channels.1.w"] == pytest.approx((30 * 2 + 30 * 20) / 60)
    assert to_b["channels.0.w"] == to_a["channels.1.w"]
    assert to_b["channels.1.w"] == to_a["channels.0.w"]
    assert to_a["kinds.centres"].ravel() == pytest.approx([1.1, 5.1])
    assert to_b["kinds.centres"].ravel() == pytest.approx([5.1, 1.1])
    assert to_a["project.w"] == pytest.approx((1 + 2 * 4) / 3)


def test_a_channel_without_links_at_any_client_keeps_its_value() -> None:
    rule = ChannelMean("true")
    state = rule.start(arrays([7, 7], [0, 0], [0, 0], 0))
    reply = Payload(arrays([1, 99], [5, 0], [0, 0], 3), {"weight": 1})
    after = rule.merge(state, replied([("a", reply)]), server())
    assert after.arrays["channels.0.w"] == 1
    assert after.arrays["channels.1.w"] == 7


def test_common_groups_may_hold_several_clusters_of_a_client_and_are_formed_once() -> None:
    rule = ChannelMean("common")
    state = rule.start(arrays([0, 0], [0, 0], [0, 0], 0))
    one_kind = Payload(arrays([1, 3], [10, 30], [1.0, 2.0], 1), {"weight": 1})
    other = Payload(arrays([8, 4], [20, 20], [-1.0, 3.0], 1), {"weight": 1})
    after = rule.merge(state, replied([("a", one_kind), ("b", other)]), server())
    up, down = after.arrays["kinds.centres"].ravel().argsort()[::-1]
    assert after.arrays["kinds.centres"].ravel()[[up, down]] == pytest.approx([2.0, -1.0])
    assert after.arrays["kinds.nodes"][[up, down]] == pytest.approx([60, 20])
    assert after.arrays[f"channels.{up}.w"] == pytest.approx((10 * 1 + 30 * 3 + 20 * 4) / 60)
    assert after.arrays[f"channels.{down}.w"] == 8
    assert rule.send(after, "a") is after.arrays
    without_first = Payload(arrays([5, 6], [0, 9], [1.0, 1.0], 1), {"weight": 1})
    later = rule.merge(after, replied([("a", without_first)]), server())
    assert later.arrays["channels.1.w"] == 6
    assert later.arrays["channels.0.w"] == after.arrays["channels.0.w"]


def test_fewer_centres_than_groups() -> None:
    groups = cluster_centres(4, {"a": np.eye(2)[[0, 1, 0, 0]]}, {"a": np.array([1, 1, 0, 1])})
    assert groups["a"][0] == groups["a"][3] != groups["a"][1]


def test_the_rule_reports_how_well_clients_agree() -> None:
    rule = ChannelMean("true")
    state = rule.start(arrays([0, 0], [0, 0], [0, 0], 0))
    replies = [
        ("a", Payload(arrays([3, 1], [10, 10], [1.0, 5.0], 1), {"weight": 1})),
        ("b", Payload(arrays([3, -3], [10, 10], [1.5, -5.0], 1), {"weight": 1})),
    ]
    metrics = rule.merge(state, replied(replies), server()).numbers
    assert metrics["agreement/0"] == pytest.approx(1)
    assert metrics["agreement/1"] == pytest.approx(-1)
    assert metrics["change/a/0"] == 3
    assert metrics["distance/a/0"] == pytest.approx(0)
    assert metrics["distance/a/1"] == pytest.approx(2)  # the merge has the opposite direction
    assert -1 <= metrics["silhouette"] <= 1


@pytest.mark.parametrize("grouping", ["matched", "common"])
def test_more_channels_than_true_kinds_and_clients_without_some_kinds(
    grouping: str, tmp_path: Path
) -> None:
    result = run(
        "fedlit",
        "planted",
        rounds=3,
        out=tmp_path / "run",
        kinds="12",
        grouping=grouping,
        nodes="200",
        links="60",
        clients="4",
    )
    scores = result.summary.scores
    assert 0 < scores.overview["nmi"] <= 1
    assert len(scores.clients) == 4


def test_a_client_may_omit_the_projection() -> None:
    rule = ChannelMean()
    state = rule.start(arrays([0, 0], [0, 0], [0, 0], 0))
    less = {k: v for k, v in arrays([2, 1], [10, 10], [5.0, 1.0], 9).items() if k != "project.w"}
    replies = [
        ("a", Payload(arrays([1, 2], [10, 10], [1.0, 5.0], 3), {"weight": 1})),
        ("b", Payload(less, {"weight": 7})),
    ]
    after = rule.merge(state, replied(replies), server())
    assert after.arrays["project.w"] == 3
    assert rule.send(after, "b")["channels.0.w"] == 2
