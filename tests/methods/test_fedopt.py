"""FedAdam and FedYogi against numbers that were derived by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import ramet
from federations import PLANTED, payload, planted_run, stopped_and_resumed
from ramet.engine.server.state import MERGING, RunState
from ramet.engine.store.checkpoint import Snapshots
from ramet.experiment import RunFolder
from ramet.methods import METHODS, fedadam, fedyogi
from ramet.methods.fedopt import AdaptiveStep
from ramet.payload import Payload
from ramet.rules.merging import Merging
from servers import replied, server


def after(rule: Merging, *updates: float) -> list[dict[str, float]]:
    """The states after steps along these mean updates, each from two clients."""
    state, states = rule.start({"w": np.zeros(1, np.float32)}), []
    for update in updates:
        now = rule.send(state, "a")["w"].item()
        # the mean of 4 updates and 0, with the weights 1 and 3, is the update
        replies = [("a", payload({"w": [now + 4 * update]})), ("b", payload({"w": [now]}, 3))]
        state = rule.merge(state, replied(replies), server())
        states.append({name: array.item() for name, array in state.arrays.items()})
    return states


def test_two_steps_of_adam_by_hand() -> None:
    """beta1 = beta2 = 1/2, adaptivity 1, learning rate 12; v starts at 1 * 1.

    Update 7: m = 7/2 = 3.5, v = (1 + 49) / 2 = 25, step 12 * 3.5 / (5 + 1) = 7.
    Update -5: m = (3.5 - 5) / 2 = -0.75, v = (25 + 25) / 2 = 25, step 12 * -0.75 / 6 = -1.5.
    """
    rule = AdaptiveStep(server_lr=12.0, adaptivity=1.0, beta1=0.5, beta2=0.5)
    first, second = after(rule, 7, -5)
    assert first == {"now/w": 7, "mean/w": 3.5, "square/w": 25}
    assert second == {"now/w": 5.5, "mean/w": -0.75, "square/w": 25}


def test_two_steps_of_yogi_by_hand() -> None:
    """Update 4: 16 > v = 1, so v = 1 + 16/2 = 9; m = 2, step 12 * 2 / (3 + 1) = 6.

    Update 2: 4 < v, so v = 9 - 4/2 = 7; m = (2 + 2) / 2 = 2, step 24 / (1 + sqrt 7) =
    4 (sqrt 7 - 1) = 6.5830052.
    """
    rule = AdaptiveStep(server_lr=12.0, adaptivity=1.0, beta1=0.5, beta2=0.5, yogi=True)
    first, second = after(rule, 4, 2)
    assert first == {"now/w": 6, "mean/w": 2, "square/w": 9}
    assert (second["mean/w"], second["square/w"]) == (2, 7)
    assert second["now/w"] == pytest.approx(12.5830052)


def test_the_moments_start_at_0_and_at_the_square_of_the_adaptivity() -> None:
    rule = fedadam().merging
    state = rule.start({"w": np.full(2, 7, np.float32)}).arrays
    assert {name: array.tolist() for name, array in state.items()} == {
        "now/w": [7, 7],
        "mean/w": [0, 0],
        "square/w": pytest.approx([1e-6, 1e-6]),
    }
    assert [*rule.send(Payload(state), "a")] == ["w"]


def test_arrays_of_integers_are_averaged() -> None:
    """(1 * 10 + 3 * 14) / 4 = 13."""
    rule = AdaptiveStep()
    counts = [Payload({"n": np.array([n])}, {"weight": w}) for n, w in ((10, 1), (14, 3))]
    state = rule.merge(
        rule.start({"n": np.array([0])}), replied(zip("ab", counts, strict=True)), server()
    )
    assert rule.send(state, "a")["n"].tolist() == [13]


def test_buffers_are_averaged() -> None:
    """(1 * 2 + 3 * 6) / 4 = 5; a step of Adam has another length."""
    rule, now = AdaptiveStep(), replace(server(), buffers=frozenset({"norm.running_var"}))
    start = {name: np.ones(1, np.float32) for name in ("norm.running_var", "norm.weight")}
    replies = [
        (c, payload({name: [v] for name in start}, w)) for c, v, w in (("a", 2, 1), ("b", 6, 3))
    ]
    merged = rule.send(rule.merge(rule.start(start), replied(replies), now), "a")
    assert merged["norm.running_var"].tolist() == [5]
    assert merged["norm.weight"].tolist() != [5]


NORMED = """
from torch import nn
from torch_geometric.nn import GCNConv


class Normed(nn.Module):
    def __init__(self, shape):
        super().__init__()
        self.hidden = GCNConv(shape.features, 4)
        self.norm = nn.BatchNorm1d(4)
        self.head = nn.Linear(4, shape.classes)

    def forward(self, data):
        return self.head(self.norm(self.hidden(data.x, data.edge_index) / 10))
"""


@pytest.mark.parametrize("method", ["fedadam", "fedyogi", "fedbuff"])
def test_variances_of_a_batch_norm_stay_positive(method: str, tmp_path: Path) -> None:
    """The variances begin at 1 and shrink by up to a tenth; a step beyond that goes below 0."""
    (tmp_path / "normed.py").write_text(NORMED)
    result = ramet.run(
        method,
        "planted",
        network=f"{tmp_path}/normed.py:Normed",
        rounds=4,
        out=tmp_path / "run",
        lr=1e-4,
        server_lr=20.0 if method == "fedbuff" else 1.0,
        **{name: value for name, value in PLANTED.items() if name != "hidden"},
    )
    saved = Snapshots(result.folder / "server").latest_valid()
    assert saved is not None
    merging = RunState.restored(saved)[MERGING]
    variances = METHODS[method]().merging.send(merging, "site0")["norm.running_var"]
    assert 0 < variances.min() < 1


def test_yogi_is_an_option_of_the_step() -> None:
    assert fedadam().merging == AdaptiveStep(yogi=False)
    assert fedyogi().merging == AdaptiveStep(yogi=True)


@pytest.mark.parametrize("method", ["fedadam", "fedyogi"])
def test_bytes_by_hand_and_the_same_sha256_when_resumed(method: str, tmp_path: Path) -> None:
    """152 parameters of 4 bytes, for three clients; the moments stay at the server."""
    whole = planted_run(method, tmp_path / "whole")
    records = RunFolder(whole.folder).records()
    assert [(r.bytes_up, r.bytes_down) for r in records] == [(3 * 608, 3 * 608)] * 3
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256
