"""Grouping of channels that have no common order."""

from __future__ import annotations

from itertools import permutations, product

import numpy as np
import pytest

from ramet.methods.fedlit import ChannelMean, group_centres
from ramet.payload import Arrays, Payload


def test_groups_are_as_good_as_the_best_of_all() -> None:
    draw = np.random.default_rng(0)
    true = draw.normal(size=(3, 4))
    orders = {"a": [2, 0, 1], "b": [0, 1, 2], "c": [1, 2, 0]}
    centres = {c: true[order] + 0.05 * draw.normal(size=(3, 4)) for c, order in orders.items()}
    present = {client: np.ones(3, dtype=bool) for client in centres}
    middle, groups = group_centres(np.zeros((3, 4)), centres, present)

    def cost(grouping: dict[str, tuple[int, ...]]) -> float:
        total = 0.0
        for group in range(3):
            members = np.stack([centres[c][grouping[c].index(group)] for c in centres])
            total += float(((members - members.mean(axis=0)) ** 2).sum())
        return total

    found = cost({client: tuple(group) for client, group in groups.items()})
    every = product(permutations(range(3)), repeat=3)
    best = min(cost(dict(zip("abc", grouping, strict=True))) for grouping in every)
    assert found == pytest.approx(best)
    for client, order in orders.items():
        assert np.allclose(middle[groups[client]], true[order], atol=0.2)


def test_kinds_that_a_client_lacks_take_no_part() -> None:
    true = np.eye(3)
    centres = {"a": true, "b": np.array([[9.0, 9, 9], [0, 0, 1.0], [9, 9, 9]])}
    present = {"a": np.ones(3, dtype=bool), "b": np.array([False, True, False])}
    middle, groups = group_centres(true, centres, present)
    assert groups["b"][1] == 2
    assert sorted(groups["b"]) == [0, 1, 2]
    assert np.allclose(middle, true)


def arrays(channel: list[float], nodes: list[float], centres: list[float], other: float) -> Arrays:
    told = {f"channels.{i}.w": np.array([value], np.float32) for i, value in enumerate(channel)}
    return {
        **told,
        "kinds.nodes": np.array(nodes, np.float32),
        "kinds.centres": np.array(centres, np.float32)[:, None],
        "project.w": np.array([other], np.float32),
    }


def test_channels_are_averaged_inside_their_group_and_sent_back_in_the_clients_order() -> None:
    rule = ChannelMean()
    state = rule.start(arrays([0, 0], [0, 0], [0, 0], 0))
    replies = [
        ("a", Payload(arrays([1, 2], [10, 30], [1.0, 5.0], 1), {"weight": 1})),
        ("b", Payload(arrays([20, 10], [30, 10], [5.2, 1.2], 4), {"weight": 2})),
    ]
    after = rule.merge(state, replies)
    backwards = rule.merge(state, reversed(replies))
    for name, array in after.arrays.items():
        assert np.array_equal(array, backwards.arrays[name])
    to_a, to_b = rule.ask(after, "a"), rule.ask(after, "b")
    assert to_a["channels.0.w"] == pytest.approx((10 * 1 + 10 * 10) / 20)
    assert to_a["channels.1.w"] == pytest.approx((30 * 2 + 30 * 20) / 60)
    assert to_b["channels.0.w"] == to_a["channels.1.w"]
    assert to_b["channels.1.w"] == to_a["channels.0.w"]
    assert to_a["kinds.centres"].ravel() == pytest.approx([1.1, 5.1])
    assert to_b["kinds.centres"].ravel() == pytest.approx([5.1, 1.1])
    assert to_a["project.w"] == pytest.approx((1 + 2 * 4) / 3)


def test_a_channel_that_nobody_has_stays() -> None:
    rule = ChannelMean(align=False)
    state = rule.start(arrays([7, 7], [0, 0], [0, 0], 0))
    reply = Payload(arrays([1, 99], [5, 0], [0, 0], 3), {"weight": 1})
    after = rule.merge(state, [("a", reply)])
    assert after.arrays["channels.0.w"] == 1
    assert after.arrays["channels.1.w"] == 7


def test_a_client_may_be_spared_the_projection() -> None:
    rule = ChannelMean()
    state = rule.start(arrays([0, 0], [0, 0], [0, 0], 0))
    less = {k: v for k, v in arrays([2, 1], [10, 10], [5.0, 1.0], 9).items() if k != "project.w"}
    replies = [
        ("a", Payload(arrays([1, 2], [10, 10], [1.0, 5.0], 3), {"weight": 1})),
        ("b", Payload(less, {"weight": 7})),
    ]
    after = rule.merge(state, replies)
    assert after.arrays["project.w"] == 3
    assert rule.ask(after, "b")["channels.0.w"] == 2
