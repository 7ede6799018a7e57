"""FedSpray against numbers that were derived by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch

from federations import planted_run, stopped_and_resumed
from ramet.data import NodeGraph
from ramet.engine.messages import request
from ramet.engine.site.client import Client
from ramet.experiment.capabilities import Can
from ramet.experiment.compatibility import why_not
from ramet.methods import fedspray
from ramet.methods.fedproto import PrototypeMean
from ramet.methods.fedspray import divergence, soft_targets
from ramet.models.settings import NodeNetwork
from ramet.models.shape import NodeShape
from ramet.models.structure_proxies import ProxyGCN
from ramet.payload import Payload
from ramet.rules.method import assembled

LN3 = math.log(3)


@pytest.fixture
def pair() -> NodeGraph:
    """Node 0, of class 1, is for training; node 1 is not. Features are 1 and 2."""
    return NodeGraph(
        features=torch.tensor([[1.0], [2.0]]),
        labels=torch.tensor([1, 0]),
        classes=2,
        left=torch.tensor([0], dtype=torch.int32),
        right=torch.tensor([1], dtype=torch.int32),
        kinds=torch.zeros(1, dtype=torch.uint8),
        kind_names=("link",),
        trained=torch.tensor([True, False]),
    )


@pytest.fixture
def encoder() -> ProxyGCN:
    """One hidden unit, the feature itself. Without proxies the logits are (ln 3 · x, 0), with them
    (x + s, 0). The proxies are 10 and 20.
    """
    model = ProxyGCN(NodeShape(1, 2), NodeNetwork(hidden=1, dropout=0.0)).eval()
    for parameter in model.parameters():
        parameter.data.zero_()
    model.features.weight.data.fill_(1.0)
    model.plain.weight.data[0] = LN3
    model.classify.weight.data[0] = 1.0
    model.proxies.data = torch.tensor([[10.0], [20.0]])
    return model


def test_proxies_by_hand(pair: NodeGraph, encoder: ProxyGCN) -> None:
    """Node 0 gets the proxy of its class, 1 + 20. Node 1 is of class 0 with probability 9/10 by its
    features alone, so its proxy is 9/10 · 10 + 1/10 · 20 = 11, and its logit 2 + 11.
    """
    plain, together = encoder.from_features(pair)
    assert plain.flatten().tolist() == pytest.approx([LN3, 0, 2 * LN3, 0])
    assert together.flatten().tolist() == pytest.approx([21, 0, 13, 0])


def test_only_training_nodes_and_sure_ones_are_taught(pair: NodeGraph, encoder: ProxyGCN) -> None:
    """Node 0 is always taught; the probability of node 1, 0.9, must be above the limit."""
    assert soft_targets(encoder, pair, 0.89)[1].tolist() == [True, True]
    assert soft_targets(encoder, pair, 0.91)[1].tolist() == [True, False]


def test_the_divergence_by_hand() -> None:
    """Targets 3/4, 1/4 and outputs 1/2, 1/2: 3/4 ln 3/2 + 1/4 ln 1/2; the second node agrees."""
    targets, outputs = torch.tensor([[LN3, 0], [5, 5]]), torch.zeros(2, 2)
    expected = (0.75 * math.log(1.5) + 0.25 * math.log(0.5)) / 2
    assert divergence(targets, outputs).item() == pytest.approx(expected)
    assert divergence(targets[:0], outputs[:0]).item() == 0


def test_proxies_are_weighted_by_the_training_nodes_of_the_class() -> None:
    """Class 0: (1 · 4 + 3 · 8) / 4 = 7. Class 1 is at the second client only, class 2 nowhere."""
    replies = [
        ("a", {"proxies": [[4.0], [9.0], [0.0]], "counts": [1.0, 0.0, 0.0]}),
        ("b", {"proxies": [[8.0], [5.0], [0.0]], "counts": [3.0, 2.0, 0.0]}),
    ]
    sent = [
        (name, Payload(extras={key: np.array(v, np.float32) for key, v in given.items()}))
        for name, given in replies
    ]
    rule = PrototypeMean("proxies")
    start = {"proxies": np.full((3, 1), 0.5, np.float32), "counts": np.zeros(3, np.float32)}
    merged = rule.merge(rule.start(start), sent, None)  # type: ignore[arg-type]
    assert merged.arrays["proxies"].flatten().tolist() == [7, 5, 0.5]


def test_the_encoder_learns_after_the_gnn_and_the_gnn_stays_private(
    tiny_client: Callable[..., Client],
) -> None:
    method = assembled(fedspray(NodeNetwork(hidden=4)))
    node = tiny_client("rings", method)
    reply = node.answer(request(1, True, {}))
    assert {name.split(".")[0] for name in reply.arrays} == {"features", "classify", "plain"}
    trained = node.samples.split.train  # type: ignore[attr-defined]
    labels = node.samples.graph.labels[trained]  # type: ignore[attr-defined]
    assert reply.extras["counts"].tolist() == torch.bincount(labels, minlength=3).tolist()
    assert (reply.extras["proxies"] != 0).any(axis=1).all()
    again = node.answer(request(2, True, {}, extras=dict(reply.extras)))
    assert not np.array_equal(again.arrays["plain.weight"], reply.arrays["plain.weight"])


def test_without_soft_targets_the_gnn_is_trained_alone(tmp_path: Path) -> None:
    """The GNN's start and training are then those of `local`, and so are its losses and scores."""
    local = planted_run("local", tmp_path / "local", dropout=0.0)
    alone = planted_run("fedspray", tmp_path / "alone", dropout=0.0, strength=0.0)
    taught = planted_run("fedspray", tmp_path / "taught", dropout=0.0)
    for column in ("loss", "val", "test"):
        assert alone.frame[column].equals(local.frame[column])
    assert not taught.frame["loss"].equals(local.frame["loss"])


def test_a_stopped_run_ends_with_the_same_result_and_can_be_summed(tmp_path: Path) -> None:
    whole = planted_run("fedspray", tmp_path / "whole")
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256
    assert why_not(assembled(fedspray()), Can.SECURE) is None
