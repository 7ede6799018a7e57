"""What FedSage+ shares, and what its generator learns from."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import ramet
from ramet.engine.messages import request
from ramet.engine.site.client import Client
from ramet.engine.store.checkpoint import Snapshots
from ramet.methods import fedavg, fedsage_plus, local
from ramet.models.node_sage import NodeSAGE
from ramet.rules.method import Method, assembled
from ramet.tasks import NodeClassification
from ramet.training.local import LocalTraining


def on_nodes(method: Method) -> Method:
    """The method with FedSage's network, as `local-nodes` and `fedsage-nodes` name it."""
    return assembled(method, NodeClassification(), NodeSAGE, same_schema=True)


def test_the_generator_can_stay_private(tiny_client: Callable[..., Client]) -> None:
    private = tiny_client("rings", fedsage_plus(generator="home"))
    shared = tiny_client("trees", fedsage_plus())
    silent = tiny_client("blocks", on_nodes(local()))
    sent = [node.answer(request(1, True, {})).arrays for node in (private, shared, silent)]
    assert {name.partition(".")[0] for name in sent[0]} == {"classifier"}
    assert {name.partition(".")[0] for name in sent[1]} == {"classifier", "generator"}
    assert not sent[2]


def test_with_zero_loss_weights_the_generator_does_not_change(
    tiny_client: Callable[..., Client],
) -> None:
    training = LocalTraining(lr=0.01, weight_decay=0)
    idle = assembled(fedsage_plus(count_weight=0, feature_weight=0), training=training)
    node = tiny_client("rings", idle)
    first = node.answer(request(1, True, {})).arrays
    second = node.answer(request(2, True, {})).arrays
    for name, array in first.items():
        same = bool((array == second[name]).all())
        assert same == name.startswith("generator.")


@pytest.mark.parametrize("factory", [local, fedavg, fedsage_plus])
def test_a_new_process_continues_from_disk(
    factory: Callable[[], Method], tiny_client: Callable[..., Client], tmp_path: Path
) -> None:
    node = tiny_client("rings", on_nodes(factory()))
    fresh = replace(node, snapshots=Snapshots(tmp_path / "fresh"))
    for number in (1, 2, 3):
        in_memory = node.answer(request(number, True, {}))
        fresh = replace(fresh)
        from_disk = fresh.answer(request(number, True, {}))
        assert in_memory.numbers["loss"] == from_disk.numbers["loss"]
        assert in_memory.numbers.get("test") == from_disk.numbers.get("test")


def test_cora_runs_and_is_evaluated_on_the_whole_graph(tmp_path: Path, data_root: Path) -> None:
    result = ramet.run("fedsage+", "cora", rounds=2, data=data_root, out=tmp_path, hidden=8)
    scores = result.summary.scores
    assert len(scores.clients) == 5
    assert 0 < scores.overview["test"] < 1
    assert torch.isfinite(torch.tensor(scores.test))
