"""FedProto against numbers that were derived by hand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from federations import Federation, graphs_of, nodes_of, planted_run, stopped_and_resumed
from ramet.data import Batch
from ramet.engine.messages import request
from ramet.engine.site.client import Client
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.methods import fedproto
from ramet.methods.fedproto import PrototypeMean, invalid_counts, no_prototypes
from ramet.models.plain_link import LinkGCN
from ramet.models.shape import GraphShape, LinkShape
from ramet.payload import Payload
from ramet.rules.method import assembled
from ramet.training.local import LocalTraining
from servers import replied, server


def reply(prototypes: list[list[float]], counts: list[float]) -> Payload:
    extras = {"prototypes": prototypes, "counts": counts}
    return Payload(extras={name: np.array(value, np.float32) for name, value in extras.items()})


def test_means_are_weighted_by_the_number_of_samples_of_each_class() -> None:
    """Class 0: (1 * 1 + 3 * 5) / 4 = 4 and (1 * 2 + 3 * 6) / 4 = 5. Only b has class 1; class 2
    has no samples and keeps its last prototype and count.
    """
    rule = PrototypeMean()
    last = Payload(
        {
            "prototypes": np.array([[9, 9], [9, 9], [7, 8]], np.float32),
            "counts": np.array([1, 1, 2], np.float32),
        }
    )
    replies = [
        ("a", reply([[1, 2], [0, 0], [0, 0]], [1, 0, 0])),
        ("b", reply([[5, 6], [8, 3], [0, 0]], [3, 2, 0])),
    ]
    merged = rule.merge(last, replied(replies), server()).arrays
    assert merged["prototypes"].tolist() == [[4, 5], [8, 3], [7, 8]]
    assert merged["counts"].tolist() == [4, 2, 2]
    assert {array.dtype.name for array in merged.values()} == {"float32"}


class Scaled(nn.Module):
    """Embeds a graph as its number of nodes times ``weight``; its logits are 0."""

    def __init__(self, shape: GraphShape) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.tensor([1.0, -1.0]))
        self.embedding_size = shape.classes, 2

    def encode(self, batch: Batch) -> Tensor:  # [graphs, 2]
        return nodes_of(batch).unsqueeze(1) * self.weight

    def forward(self, batch: Batch) -> Tensor:  # [graphs, 2]
        return self.encode(batch) * 0.0


def test_two_rounds_by_hand(tmp_path: Path) -> None:
    """Logits of 0 have no gradient, so only the penalty trains. Strength 2, learning rate 1/8.

    a has graphs of 1 and 3 nodes, both of class 0. b has one of 8 nodes of class 0, and one of 4
    nodes of class 1. In the first coordinate:
    Round 1, without prototypes: the weight stays 1.
      a: class 0 (1 + 3) / 2 = 2; b: class 0 8, class 1 4
      server: class 0 (2 * 2 + 8) / 3 = 4, class 1 4
    Round 2: the penalty is 2 times the mean, over the graphs and over both coordinates, of
    (n w - p)^2. Its gradient is 2 * 1/2 * 1/2 * 2 = 1 times the sum of n (n w - p).
      a: 1 * (1 - 4) + 3 * (3 - 4) = -6, weight 1 + 6/8 = 1.75; class 0 2 * 1.75 = 3.5
      b: 8 * (8 - 4) + 4 * (4 - 4) = 32, weight 1 - 32/8 = -3; class 0 -24, class 1 -12
      server: class 0 (2 * 3.5 - 24) / 3 = -17/3, class 1 -12
    The second coordinate is minus the first.
    """
    training = LocalTraining(lr=1 / 8, weight_decay=0.0, algorithm="sgd")
    method = assembled(replace(fedproto(strength=2.0), model=Scaled, training=training))
    samples = {"a": graphs_of([1, 3], [0, 0]), "b": graphs_of([8, 4], [0, 1])}
    federation = Federation(method, tmp_path, samples)
    _, records = federation.run(2)
    first, second = (federation.saved("server", number).arrays for number in (1, 2))
    assert first["extras/training/prototypes"].tolist() == [[4, -4], [4, -4]]
    assert first["extras/training/counts"].tolist() == [3, 1]
    assert federation.saved("a", 2).arrays["model/weight"].tolist() == [1.75, -1.75]
    assert federation.saved("b", 2).arrays["model/weight"].tolist() == [-3, 3]
    prototypes = second["extras/training/prototypes"].ravel().tolist()
    assert prototypes == pytest.approx([-17 / 3, 17 / 3, -12, 12])
    losses = [numbers["loss"] for record in records for numbers in record.trained.values()]
    assert losses == pytest.approx([np.log(2)] * 4)  # without the penalty


def test_a_class_that_nobody_has_is_left_out_of_the_penalty(tmp_path: Path) -> None:
    """The count of class 0 is 0, so its prototype of 100 attracts nobody."""
    training = LocalTraining(lr=1 / 8, weight_decay=0.0, algorithm="sgd")
    method = assembled(replace(fedproto(), model=Scaled, training=training))
    node = Federation(method, tmp_path, {"a": graphs_of([1, 3], [0, 0])}).client("a")
    unknown = {
        "prototypes": np.full((2, 2), 100, np.float32),
        "counts": np.array([0, 5], np.float32),
    }
    sent = node.answer(request(2, True, {}, extras=unknown)).extras
    assert sent["prototypes"].tolist() == [[2, -2], [0, 0]]
    assert sent["counts"].tolist() == [2, 0]


def test_only_prototypes_leave_a_client(tiny_client: Callable[..., Client]) -> None:
    sent = tiny_client("rings", fedproto()).answer(request(1, True, {}))
    assert not sent.arrays
    assert {name: array.shape for name, array in sent.extras.items()} == {
        "prototypes": (2, 64),
        "counts": (2,),
    }
    assert sent.extras["counts"].sum() == sent.numbers["weight"]  # each training graph once


@pytest.mark.parametrize("counts", [[-1, 2], [0.5, 1]])
def test_counts_that_are_none_are_refused(counts: list[float]) -> None:
    """They are the weights of prototypes."""
    assert invalid_counts(reply([[0, 0], [0, 0]], counts).extras) == (
        "counts has values that are not counts"
    )
    assert invalid_counts(reply([[0, 0], [0, 0]], [0, 7]).extras) is None


def test_networks_without_classes_are_refused() -> None:
    network = LinkGCN(LinkShape((("node", 1),), ("link",)))
    with pytest.raises(RametError, match="LinkGCN has no `embedding_size`"):
        no_prototypes(network, ())


def test_bytes_by_hand_and_the_same_sha256_when_resumed(tmp_path: Path) -> None:
    """Four classes with prototypes of width 4, and four counts: 20 floats, 80 bytes.

    There are no parameters to close the run with.
    """
    whole = planted_run("fedproto", tmp_path / "whole")
    records = RunFolder(whole.folder).records()
    assert [record.bytes_up for record in records] == [3 * 80] * 3
    assert [record.bytes_down for record in records] == [3 * 80, 3 * 80, 0]
    sent = whole.summary.sent
    assert sent is not None
    assert (sent.bytes.up, sent.bytes.down) == (720, 480)
    assert (sent.tensors.up, sent.tensors.down) == (3 * 3 * 2, 3 * 2 * 2)
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256
