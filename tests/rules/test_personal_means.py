"""FedGTA and FED-PUB against numbers that were derived by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest
import torch

from federations import planted_run, stopped_and_resumed
from ramet.data import NodeGraph
from ramet.methods.fedgta import Alike, confidence, moments, negative_confidence
from ramet.methods.fedpub import BySimilarity, SparseAndNear, no_embedding, send_embedding
from ramet.models.plain_node import MaskedNodeGCN
from ramet.models.propagation import propagated
from ramet.models.random_graph import random_graph
from ramet.models.settings import NodeNetwork
from ramet.models.shape import NodeShape
from ramet.payload import Payload
from ramet.rules.merging import NEW_CLIENT
from ramet.rules.personal_means import PersonalMeans
from ramet.training.local import Session
from servers import replied, server


def reply(value: float, weight: float = 1.0, **extras: list[float]) -> Payload:
    arrays = {name: np.array(values, np.float32) for name, values in extras.items()}
    return Payload({"w": np.array([value], np.float32)}, {"weight": weight}, extras=arrays)


def merged(rule: PersonalMeans, replies: Mapping[str, Payload]) -> dict[str, float]:
    state = rule.merge(
        rule.start({"w": np.zeros(1, np.float32)}), replied(replies.items()), server()
    )
    return {c: rule.send(state, c)["w"].item() for c in (*replies, NEW_CLIENT)}


def test_fedgta_averages_clients_that_are_alike_by_confidence() -> None:
    """a and b point in the same direction, c is orthogonal to both.

    a and b: (1 * 2 + 3 * 6) / 4 = 5; c: 10; a new client: the plain mean (2 + 6 + 10) / 3 = 6.
    """
    replies = {
        "a": reply(2, moments=[1, 0], confidence=[1]),
        "b": reply(6, moments=[2, 0.1], confidence=[3]),
        "c": reply(10, moments=[0, 1], confidence=[9]),
    }
    assert merged(Alike(0.5), replies) == {"a": 5, "b": 5, "c": 10, NEW_CLIENT: 6}


def test_clients_without_confidence_count_equally() -> None:
    replies = {c: reply(v, moments=[1, 0], confidence=[0]) for c, v in (("a", 2), ("b", 4))}
    assert merged(Alike(0.5), replies)["a"] == 3
    assert negative_confidence({"confidence": np.array([-1.0])}) == "confidence is not a weight"
    assert negative_confidence({"confidence": np.array([np.nan])})
    assert negative_confidence({"confidence": np.array([0.0])}) is None


def test_fedpub_weighs_by_the_exponential_of_cosines() -> None:
    """With cosine 0 and sharpness ln 3, a weighs itself 3 : 1."""
    replies = {"a": reply(4, embedding=[1, 0]), "b": reply(8, embedding=[0, 2])}
    values = merged(BySimilarity(math.log(3)), replies)
    assert values == pytest.approx({"a": 5, "b": 7, NEW_CLIENT: 6})


def test_a_client_that_did_not_reply_keeps_its_mean() -> None:
    rule = BySimilarity(1.0)
    first = {"a": reply(4, embedding=[1, 0]), "b": reply(8, embedding=[1, 0])}
    state = rule.merge(rule.start({"w": np.zeros(1, np.float32)}), replied(first.items()), server())
    again = rule.merge(state, replied([("b", reply(1, embedding=[1, 0]))]), server())
    assert rule.send(again, "a")["w"].item() == 6
    assert rule.send(again, "b")["w"].item() == 1
    assert rule.merge(state, [], server()) is state


def two_nodes() -> NodeGraph:
    return NodeGraph(
        features=torch.eye(2),
        labels=torch.tensor([0, 1]),
        classes=2,
        left=torch.tensor([0], dtype=torch.int32),
        right=torch.tensor([1], dtype=torch.int32),
        kinds=torch.zeros(1, dtype=torch.uint8),
        kind_names=("link",),
        trained=torch.tensor([True, False]),
    )


def test_labels_are_propagated_by_hand() -> None:
    """Both nodes have degree 2 with their self loop, so a step takes the mean of the two.

    Node 0 is a training node of class 0, node 1 is undecided. One step:
      mean (0.75, 0.25); halved with the start: node 0 (0.875, 0.125), node 1 (0.625, 0.375)
      the training node's label is added: node 0 (1.875, 0.125)
    """
    labels, trained = torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([0])
    spread = propagated(two_nodes(), labels, trained, 1)
    expected = torch.tensor([[1.875, 0.125], [0.625, 0.375]])
    torch.testing.assert_close(spread, expected)


def test_moments_and_confidence_by_hand() -> None:
    """Values 1 and 0: mean 1/2, mean square 1/2; central moments 0 and 1/4.

    A decided node has confidence 2 / e times its degree, an undecided one 2 / e - ln 2.
    """
    values = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    assert moments(values, 2).tolist() == [[0.5, 0.5], [0.5, 0.5], [0.0, 0.0], [0.25, 0.25]]
    labels, degrees = torch.tensor([[1.0, 0.0], [0.5, 0.5]]), torch.tensor([3, 1])
    expected = 3 * 2 / math.e + 2 / math.e - math.log(2)
    assert confidence(labels, degrees).item() == pytest.approx(expected)


def test_the_random_graph_is_the_same_everywhere() -> None:
    graph = random_graph(8)
    assert (graph.nodes, graph.features.shape) == (500, (500, 8))
    assert bool((graph.left // 100 == graph.right // 100).all())
    assert 2200 < graph.links < 2750  # a tenth of 5 * 100 * 99 / 2
    random_graph.cache_clear()
    assert torch.equal(random_graph(8).features, graph.features)


def test_small_masks_count_as_zero_in_evaluation() -> None:
    model = MaskedNodeGCN(NodeShape(2, 2), NodeNetwork(layers=1, dropout=0.0), threshold=0.1)
    with torch.no_grad():
        model.get_parameter("layers.0.mask").fill_(0.05)
    assert model.train()(two_nodes()).abs().sum() > 0
    assert model.eval()(two_nodes()).abs().sum() == 0


def test_the_embedding_is_the_mean_output_on_the_random_graph() -> None:
    """Without weights, every node's output is the bias."""
    model = MaskedNodeGCN(NodeShape(2, 3), NodeNetwork(layers=1, dropout=0.0), threshold=0.0)
    with torch.no_grad():
        model.get_parameter("layers.0.weight").zero_()
        model.get_parameter("layers.0.bias").copy_(torch.tensor([1.0, -2.0, 3.0]))
    session = SimpleNamespace(model=model, device=torch.device("cpu"), sending={})
    send_embedding(cast(Session, session))
    assert torch.allclose(session.sending["embedding"], torch.tensor([1.0, -2.0, 3.0]))
    assert no_embedding(model, ())["embedding"].shape == (3,)


@pytest.mark.parametrize(("number", "expected"), [(1, 0.2), (2, 1.2)])
def test_fedpubs_penalties_by_hand(number: int, expected: float) -> None:
    """Four masks of a half: 0.1 * 2. Two weights moved by 3 and 4, from round 2 on: 0.2 * 5."""
    model = MaskedNodeGCN(NodeShape(2, 2), NodeNetwork(layers=1, dropout=0.0), threshold=0.0)
    parameters = dict(model.named_parameters())
    start = {name: parameter.detach().clone() for name, parameter in parameters.items()}
    with torch.no_grad():
        parameters["layers.0.mask"].fill_(-0.5)
        parameters["layers.0.weight"].add_(torch.tensor([[3.0, 0.0], [0.0, 4.0]]))
    session = SimpleNamespace(
        model=model,
        start=start,
        shared_parameters=lambda: {n: p for n, p in parameters.items() if "mask" not in n},
        randomness=SimpleNamespace(round=number),
    )
    loss = SparseAndNear(sparsity=0.1, nearness=0.2)(cast(Session, session))(None, torch.empty(0))
    assert loss.item() == pytest.approx(expected, abs=1e-5)
    (slope,) = torch.autograd.grad(loss, parameters["layers.0.mask"])
    torch.testing.assert_close(slope, torch.full_like(slope, -0.1))


@pytest.mark.parametrize("method", ["fedgta", "fedpub"])
def test_a_stopped_run_ends_with_the_same_result(method: str, tmp_path: Path) -> None:
    whole = planted_run(method, tmp_path / "whole")
    assert stopped_and_resumed(whole, tmp_path / "stopped") == whole.summary.sha256
    size = whole.summary.model
    weights = size.shared_scalars - 4 - 4  # without the biases of 4 hidden units and 4 classes
    masks = {"fedgta": 0, "fedpub": weights}[method]
    assert {*size.scalars.values()} == {size.shared_scalars + masks}
