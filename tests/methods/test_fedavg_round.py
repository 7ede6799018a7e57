"""One round on two clients, derived by hand from the equations of the paper."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np

from ramet.engine import LocalWire, Node, Rounds, Snapshots, start_shared
from ramet.engine.node import request
from ramet.methods import fedavg, fedstar
from ramet.methods.base import Method


def merged_after_one_round(
    method: Method, node: Callable[..., Node], folder: Path
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    nodes = {name: node(name, method) for name in ("rings", "trees")}
    replies = {name: one.answer(request(1, True, {})) for name, one in nodes.items()}
    weights = {name: reply.numbers["weight"] for name, reply in replies.items()}
    by_hand = {
        name: sum(
            replies[client].arrays[name].astype(np.float64) * weight
            for client, weight in weights.items()
        )
        / sum(weights.values())
        for name in replies["rings"].arrays
    }
    start = start_shared(method, method.task.shape(nodes["rings"].samples), 0)
    rounds = Rounds(method, ("rings", "trees"), 1, 0, start, Snapshots(folder / "server"))
    rounds.run(LocalWire(lambda client: nodes[client]), lambda _: None)
    stored = Snapshots(folder / "server").load(1)
    return dict(stored.arrays), by_hand  # type: ignore[return-value]


def test_the_server_holds_the_weighted_mean(tiny_node: Callable[..., Node], tmp_path: Path) -> None:
    for method in (fedavg(), fedstar()):
        folder = tmp_path / method.name
        merged, by_hand = merged_after_one_round(method, tiny_node, folder)
        assert merged.keys() == by_hand.keys()
        for name, array in merged.items():
            assert np.array_equal(array, by_hand[name].astype(np.float32))


def test_payloads_are_the_papers(tiny_node: Callable[..., Node]) -> None:
    sent = {
        method.name: tiny_node("rings", method).answer(request(1, True, {}))
        for method in (fedavg(), fedstar())
    }
    assert sum(array.size for array in sent["fedstar"].arrays.values()) == 14_592
    assert sent["fedstar"].numbers["up"] == 58_368
    assert sum(array.size for array in sent["fedavg"].arrays.values()) == 24_960
    assert sent["fedavg"].numbers["up"] == 99_840
