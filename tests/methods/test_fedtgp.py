"""FedTGP against numbers that were derived by hand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
import torch

from federations import planted_run, stopped_and_resumed
from ramet.experiment.capabilities import Can
from ramet.experiment.compatibility import why_not
from ramet.methods import fedtgp
from ramet.methods.fedtgp import ContrastivePrototypes, contrast, invalid_marks, margin
from ramet.payload import Payload
from ramet.rules.method import assembled
from ramet.tasks import NodeClassification
from servers import replied, server

RULE = ContrastivePrototypes(epochs=1, lr=1.0, batch_size=10, largest_margin=100.0)


def reply(prototypes: list[list[float]], counts: list[float]) -> Payload:
    extras = {"prototypes": prototypes, "counts": counts}
    return Payload(extras={name: np.array(value, np.float32) for name, value in extras.items()})


def test_the_margin_is_the_largest_distance_from_the_nearest_other_class() -> None:
    """The means are (0, 0), (3, 4) and (0, 1), whose nearest are 1, √18 and 1 away."""
    points = torch.tensor([[1.0, 0.0], [-1.0, 0.0], [3.0, 4.0], [0.0, 1.0]])
    assert margin(points, torch.tensor([0, 0, 1, 2])) == pytest.approx(math.sqrt(18))
    assert margin(points, torch.tensor([2, 2, 2, 2])) == 0


def test_the_margin_makes_the_right_prototype_farther() -> None:
    """Both are 5 away; with a margin of ln 3 the right one has 1/3 : 1, so the loss is ln 4."""
    prototypes = torch.tensor([[3.0, 4.0], [0.0, 5.0]])
    loss = contrast(torch.zeros(1, 2), torch.tensor([0]), prototypes, math.log(3))
    assert loss.item() == pytest.approx(math.log(4))


def test_a_step_of_the_server_by_hand() -> None:
    """Vectors 1 and -1, both layers the identity: prototypes relu(1) = 1 and relu(-1) = 0.

    A client has class 0 at 3, so distances are 2 and 3, and class 1 has the share q = 1 / (1 + e).
    With one class the margin is 0. Prototype 0 has gradient -q, prototype 1 has q. So with learning
    rate 1 the first vector and both weights grow from 1 to 1 + q, the hidden bias is q, and that of
    the output, -q + q, stays 0. Prototype 0 is (1 + q) ((1 + q)^2 + q); the hidden value of class
    1 is -(1 + q) + q < 0, so its prototype stays 0.
    """
    network = {
        "points": [[1], [-1]],
        "hidden.weight": [[1]],
        "hidden.bias": [0],
        "output.weight": [[1]],
        "output.bias": [0],
    }
    state = Payload(
        {
            "prototypes": np.zeros((2, 1), np.float32),
            "counts": np.zeros(2, np.float32),
            **{f"network/{name}": np.array(a, np.float32) for name, a in network.items()},
        }
    )
    merged = RULE.merge(state, replied([("a", reply([[3], [7]], [1, 0]))]), server()).arrays
    q = 1 / (1 + math.e)
    expected = pytest.approx([(1 + q) * ((1 + q) ** 2 + q), 0], abs=1e-6)
    assert merged["prototypes"].ravel().tolist() == expected
    assert merged["network/points"].ravel().tolist() == pytest.approx([1 + q, -1])
    assert merged["counts"].tolist() == [1, 1]


def test_the_order_of_replies_does_not_matter() -> None:
    replies = [(c, reply([[i, 1.0], [2.0, i]], [1, 1])) for i, c in enumerate("abc")]
    start = RULE.start({"prototypes": np.zeros((2, 2), np.float32), "counts": np.zeros(2)})
    first, second = (
        RULE.merge(start, replied(order), server()) for order in (replies, replies[::-1])
    )
    assert (first.arrays["prototypes"] == second.arrays["prototypes"]).all()
    assert RULE.merge(start, [], server()) is start
    assert RULE.merge(start, replied([("a", reply([[1, 1], [1, 1]], [0, 0]))]), server()) is start


def test_it_cannot_be_summed_and_marks_are_checked() -> None:
    method = assembled(fedtgp(), NodeClassification(), same_schema=True)
    assert why_not(method, Can.SECURE) == "its extras have no rule that sums"
    assert invalid_marks(reply([[0]], [2]).extras) == "counts has values besides 0 and 1"
    assert invalid_marks(reply([[0]], [1]).extras) is None


def test_bytes_by_hand_and_the_same_sha256_when_resumed(tmp_path: Path) -> None:
    """Four prototypes of width 4 and four marks, 80 bytes: as in FedProto, three times up from
    each of three clients, and down in rounds 2 and 3.
    """
    whole = planted_run("fedtgp", tmp_path / "whole", server_epochs=5)
    sent = whole.summary.sent
    assert sent is not None
    assert (sent.bytes.up, sent.bytes.down) == (720, 480)
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256
