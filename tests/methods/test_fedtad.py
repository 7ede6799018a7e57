"""FedTAD against numbers that were derived by hand."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch

from federations import planted_run, stopped_and_resumed
from ramet.data import NodeGraph, Split
from ramet.experiment.capabilities import Can
from ramet.experiment.compatibility import why_not
from ramet.methods import fedtad
from ramet.methods.fedtad import (
    DistilledMean,
    SendReliability,
    disagreement,
    diversity_loss,
    negative_reliability,
    node_weights,
    reliabilities,
    semantic_loss,
)
from ramet.models.generated_graph import nearest_graph
from ramet.models.plain_node import NodeGCN
from ramet.models.random_walk import return_probabilities
from ramet.models.settings import NodeNetwork
from ramet.models.shape import NodeShape
from ramet.payload import Payload
from ramet.rules.method import assembled
from ramet.rules.server import Server
from ramet.tasks import NodeClassification, NodeSamples
from ramet.training.local import Session
from servers import replied, server

SHAPE = NodeShape(features=2, classes=2)


def path_of_three() -> NodeGraph:
    return NodeGraph(
        features=torch.eye(3),
        labels=torch.tensor([0, 1, 0]),
        classes=2,
        left=torch.tensor([0, 1], dtype=torch.int32),
        right=torch.tensor([1, 2], dtype=torch.int32),
        kinds=torch.zeros(2, dtype=torch.uint8),
        kind_names=("link",),
        trained=torch.tensor([True, False, False]),
    )


def test_return_probabilities_by_hand() -> None:
    """A step stays with 1/2 at an end and 1/3 in the middle.

    Two steps: an end stays twice or goes and returns, 1/4 + 1/2 * 1/3 = 5/12; the middle stays
    twice or visits one of the ends, 1/9 + 2 * 1/3 * 1/2 = 4/9.
    """
    expected = torch.tensor([[1 / 2, 5 / 12], [1 / 3, 4 / 9], [1 / 2, 5 / 12]])
    torch.testing.assert_close(return_probabilities(path_of_three(), 2), expected)


def test_the_reliability_of_a_class_by_hand() -> None:
    """Node 0 is the only training node, of class 0, and node 1 its only neighbour.

    With one step they are described by (1, 0, 0, 1/2) and (0, 1, 0, 1/3), whose cosine is
    1/6 / √(5/4 * 10/9) = 1 / √50. So class 0 has (1 + 1 / √50) / 2, and class 1 nothing.
    """
    split = Split(torch.tensor([0]), torch.tensor([1]), torch.tensor([2]))
    session = SimpleNamespace(
        samples=NodeSamples(path_of_three(), split),
        task=NodeClassification(),
        device=torch.device("cpu"),
        received={"reliability": torch.zeros(2)},
        memory={},
        sending={},
    )
    SendReliability(walk=1)(cast(Session, session))
    expected = torch.tensor([(1 + 1 / math.sqrt(50)) / 2, 0.0])
    torch.testing.assert_close(session.sending["reliability"], expected)


def test_reliability_is_shared_out_by_class() -> None:
    """Class 0 has 1 + 3, class 1 has 0 + 2, class 2 nothing. Two of four nodes are of class 0."""
    sent = {"a": [1, 0, 0], "b": [3, 2, 0]}
    replies = {c: Payload(extras={"reliability": np.array(r, np.float32)}) for c, r in sent.items()}
    shares = reliabilities(replies)
    assert shares.tolist() == [[0.25, 0, 0], [0.75, 1, 0]]
    weights = node_weights(shares, torch.tensor([0, 1, 0, 2]))
    assert weights.tolist() == [[0.125, 0, 0.125, 0], [0.375, 1, 0.375, 0]]
    assert negative_reliability({"reliability": np.array([0.0, -1.0])})
    assert negative_reliability({"reliability": np.array([0.0, 1.0])}) is None


def test_the_losses_by_hand() -> None:
    """One node of class 0, two clients with weights 1/4 and 3/4, whose outputs are (ln 3, 0) and 0.

    Class 0 has 3/4 for a and 1/2 for b: 1/4 ln(4/3) + 3/4 ln 2. The common output (0, 2) is
    (ln 3 + 2) / 2 from a's on average, and 1 from b's.
    """
    outputs = torch.tensor([[[math.log(3), 0.0]], [[0.0, 0.0]]])
    weights = torch.tensor([[0.25], [0.75]])
    semantic = semantic_loss(outputs, torch.tensor([0]), weights).item()
    assert semantic == pytest.approx(0.25 * math.log(4 / 3) + 0.75 * math.log(2))
    apart = disagreement(torch.tensor([[0.0, 2.0]]), outputs, weights).item()
    assert apart == pytest.approx(0.25 * (math.log(3) + 2) / 2 + 0.75)


def test_diversity_by_hand() -> None:
    """Two nodes: squared distance of noise 4 / 2 = 2, mean distance of features 3 / 1.

    Half of the four pairs are of different nodes: exp(-(2 * 3) / 2).
    """
    noise, features = torch.tensor([[0.0, 0.0], [2.0, 0.0]]), torch.tensor([[0.0], [3.0]])
    assert diversity_loss(noise, features).item() == pytest.approx(math.exp(-3), rel=1e-4)
    assert diversity_loss(noise, features[[0, 0]]).item() == 1


def test_generated_nodes_are_linked_to_the_most_similar() -> None:
    features = torch.tensor([[1.0, 0.0], [1.0, 0.1], [0.0, 1.0], [0.1, 1.0]])
    graph = nearest_graph(features, torch.zeros(4, dtype=torch.long), 1)
    assert list(zip(graph.left.tolist(), graph.right.tolist(), strict=True)) == [(0, 1), (2, 3)]


def knowing_server() -> Server:
    """A server that knows the clients' network."""

    def network() -> NodeGCN:
        return NodeGCN(SHAPE, NodeNetwork(hidden=4, dropout=0.0))

    return replace(server(), network=network, shape=SHAPE)


def reply(seed: int, reliability: list[float]) -> Payload:
    torch.manual_seed(seed)
    model = NodeGCN(SHAPE, NodeNetwork(hidden=4))
    arrays = {name: value.numpy().copy() for name, value in model.state_dict().items()}
    known = np.array(reliability, np.float32)
    return Payload(arrays, {"weight": 1.0}, extras={"reliability": known})


def test_one_client_keeps_its_model() -> None:
    """The mean is its model, which agrees with itself, so there is nothing to distil."""
    rule, only = DistilledMean(server_epochs=2), reply(1, [2, 1])
    merged = rule.send(
        rule.merge(rule.start(only.arrays), replied([("a", only)]), knowing_server()), "a"
    )
    assert all((merged[name] == array).all() for name, array in only.arrays.items())


def test_distillation_moves_the_mean_towards_the_reliable_client() -> None:
    """Only b is reliable, so on generated graphs the common model gets nearer to b's."""
    replies = {"a": reply(1, [0, 0]), "b": reply(2, [1, 1])}
    rule = DistilledMean(server_epochs=20, server_lr=0.01)
    start, there = rule.start(replies["a"].arrays), knowing_server()
    plain = replace(rule, server_epochs=0)
    mean, distilled = (one.merge(start, replied(replies.items()), there) for one in (plain, rule))
    for name, array in plain.send(mean, "").items():
        both = [one.arrays[name] for one in replies.values()]
        np.testing.assert_allclose(array, np.mean(both, axis=0), rtol=1e-6)
    torch.manual_seed(5)
    graph = nearest_graph(torch.randn(50, 2), torch.zeros(50, dtype=torch.long), 5)
    outputs = []
    for arrays in (rule.send(mean, ""), rule.send(distilled, ""), replies["b"].arrays):
        model = there.network()
        model.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
        outputs.append(model.eval()(graph).detach())
    before, after = ((one - outputs[2]).abs().mean().item() for one in outputs[:2])
    assert after < 0.8 * before


def test_the_order_of_replies_does_not_matter() -> None:
    replies = [("a", reply(1, [1, 0])), ("b", reply(2, [0, 1]))]
    rule = DistilledMean(server_epochs=1)
    start, there = rule.start(replies[0][1].arrays), knowing_server()
    first, second = (
        rule.merge(start, replied(order), there).arrays for order in (replies, replies[::-1])
    )
    assert all((first[name] == second[name]).all() for name in first)
    assert rule.merge(start, [], there) is start


def test_a_stopped_run_ends_with_the_same_result_and_cannot_be_summed(tmp_path: Path) -> None:
    whole = planted_run("fedtad", tmp_path / "whole")
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256
    assert why_not(assembled(fedtad()), Can.SECURE) == "DistilledMean compares single replies"
