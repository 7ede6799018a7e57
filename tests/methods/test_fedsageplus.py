"""What FedSage+ shares, and what its generator learns from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import ramet
from ramet.engine import Node, Snapshots
from ramet.engine.node import request
from ramet.methods import METHODS
from ramet.methods.training import LocalTraining

NODES = ("local-nodes", "fedsage-nodes", "fedsage+")


def test_the_generator_may_stay_at_home(tiny_node: Callable[..., Node]) -> None:
    at_home = tiny_node("rings", METHODS["fedsage+"](generator="home"))
    shared = tiny_node("trees", METHODS["fedsage+"]())
    alone = tiny_node("blocks", METHODS["local-nodes"]())
    sent = [node.answer(request(1, True, {})).arrays for node in (at_home, shared, alone)]
    assert {name.partition(".")[0] for name in sent[0]} == {"classifier"}
    assert {name.partition(".")[0] for name in sent[1]} == {"classifier", "generator"}
    assert not sent[2]


def test_without_weight_the_generator_learns_nothing(tiny_node: Callable[..., Node]) -> None:
    training = LocalTraining(lr=0.01, weight_decay=0)
    idle = METHODS["fedsage+"](count_weight=0, feature_weight=0, training=training)
    node = tiny_node("rings", idle)
    first = node.answer(request(1, True, {})).arrays
    second = node.answer(request(2, True, {})).arrays
    for name, array in first.items():
        same = bool((array == second[name]).all())
        assert same == name.startswith("generator.")


@pytest.mark.parametrize("name", NODES)
def test_a_fresh_process_goes_on_as_the_old_one_would(
    name: str, tiny_node: Callable[..., Node], tmp_path: Path
) -> None:
    node = tiny_node("rings", METHODS[name]())
    fresh = replace(node, snapshots=Snapshots(tmp_path / "fresh"))
    for number in (1, 2, 3):
        going_on = node.answer(request(number, True, {}))
        fresh = replace(fresh)  # forgets what is in memory
        from_disk = fresh.answer(request(number, True, {}))
        assert going_on.numbers["loss"] == from_disk.numbers["loss"]
        assert going_on.numbers.get("test") == from_disk.numbers.get("test")


def test_cora_is_learned_and_the_whole_graph_judged(tmp_path: Path, data_root: Path) -> None:
    result = ramet.run("fedsage+", "cora", rounds=2, data=data_root, out=tmp_path, hidden=8)
    scores = result.summary.scores
    assert len(scores.clients) == 5
    assert 0 < scores.overview["test"] < 1
    assert torch.isfinite(torch.tensor(scores.test))
