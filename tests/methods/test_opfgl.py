"""O-pFGL against numbers that were derived by hand."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from federations import planted_run, stopped_and_resumed
from ramet.data import NodeGraph, Split
from ramet.engine.messages import request
from ramet.engine.site.client import Client
from ramet.experiment.capabilities import Can
from ramet.experiment.compatibility import why_not
from ramet.methods import o_pfgl
from ramet.methods.opfgl import (
    AdaptiveDistillation,
    SurrogateGraph,
    dense_output,
    link_weights,
    moments,
    operator,
)
from ramet.models.plain_node import NodeGCN
from ramet.models.settings import NodeNetwork
from ramet.models.shape import NodeShape
from ramet.payload import Payload
from ramet.randomness import Randomness
from ramet.rules.method import assembled
from ramet.rules.server import Server
from ramet.tasks import NodeSamples
from servers import replied

QUICK: dict[str, Any] = {"server_steps": 20, "surrogate_epochs": 5, "epochs": 2}


@pytest.fixture
def path() -> NodeGraph:
    """Nodes 0 - 1 - 2 - 3 and the lone node 4; classes 0, 0, 1, 1, 0; nodes 0, 1, 2 train."""
    return NodeGraph(
        features=torch.tensor([[1.0], [2.0], [4.0], [0.0], [0.0]]),
        labels=torch.tensor([0, 0, 1, 1, 0]),
        classes=2,
        left=torch.tensor([0, 1, 2], dtype=torch.int32),
        right=torch.tensor([1, 2, 3], dtype=torch.int32),
        kinds=torch.zeros(3, dtype=torch.uint8),
        kind_names=("link",),
        trained=torch.tensor([True, True, True, False, False]),
    )


def samples_of(graph: NodeGraph) -> NodeSamples:
    return NodeSamples(graph, Split(torch.arange(3), torch.tensor([3]), torch.tensor([4])))


def test_statistics_by_hand(path: NodeGraph, tiny_client: Callable[..., Client]) -> None:
    """With self loops, nodes 0 to 2 have degrees 2, 3, 3. The means over neighbourhoods are
    1/2 + 2/√6 for node 0 and 1/√6 + 2/3 + 4/3 for node 1. Class 1 has one training node, which is
    too few.
    """
    method = assembled(o_pfgl(NodeNetwork(hidden=2)))
    node = replace(tiny_client("rings", method), samples=samples_of(path))
    reply = node.answer(request(1, True, {}, stage=method.stages[0]))
    assert set(reply.extras) == {"counts", "sums", "squares"}
    near = [1 / 2 + 2 / math.sqrt(6), 1 / math.sqrt(6) + 2]
    assert reply.extras["counts"].tolist() == [2, 0]
    assert reply.extras["sums"][0].tolist() == pytest.approx([3, sum(near)])
    assert reply.extras["squares"][0].tolist() == pytest.approx([5, near[0] ** 2 + near[1] ** 2])
    assert not reply.extras["sums"][1].any()
    assert not reply.arrays


def test_only_statistics_leave(tiny_client: Callable[..., Client]) -> None:
    reply = tiny_client("rings", o_pfgl()).answer(request(1, True, {}))
    assert not reply.arrays
    assert not reply.extras


def test_moments_by_hand() -> None:
    """The values 1, 3 and 5 have mean 3 and standard deviation 2; a class without nodes has 0."""
    total = {
        "counts": np.array([3.0, 0.0]),
        "sums": np.array([[9.0], [0.0]]),
        "squares": np.array([[35.0], [0.0]]),
    }
    counts, means, deviations = moments(total)
    assert counts.tolist() == [3, 0]
    assert means.tolist() == [[3], [0]]
    assert deviations.tolist() == [[2], [0]]


def test_links_of_the_surrogate_by_hand() -> None:
    """The scores 0 and 2 ln 3 have the mean ln 3, a weight of 3/4; -20 is below the threshold."""
    scores = torch.zeros(3, 3)
    scores[0, 1], scores[0, 2], scores[1, 2] = 2 * math.log(3), -20, -20
    weights = link_weights(scores)
    expected = torch.zeros(3, 3)
    expected[0, 1] = expected[1, 0] = 0.75
    assert torch.allclose(weights, expected)
    spread = operator(weights[:2, :2])
    assert torch.allclose(spread, torch.tensor([[1, 0.75], [0.75, 1]]) / 1.75)


def test_with_links_of_weight_one_the_output_is_the_gcns(path: NodeGraph) -> None:
    model = NodeGCN(NodeShape(1, 2), NodeNetwork(hidden=3, layers=3)).eval()
    links = path.whole.adjacency.to_dense()
    assert torch.allclose(dense_output(model, path.features, links), model(path), atol=1e-6)


def test_the_surrogate_gets_the_means_of_the_classes() -> None:
    """Two classes whose features and neighbourhoods have the same mean: 1, and -2."""
    rule = SurrogateGraph(server_steps=500, nodes_lr=0.05, links_lr=0.2)
    means = np.array([[1.0, 1.0], [-2.0, -2.0]], np.float32)
    reply = Payload(extras={"counts": np.array([5, 3]), "sums": means * [[5], [3]]})
    reply = replace(reply, extras={**reply.extras, "squares": means**2 * [[5], [3]]})
    start = {
        "nodes": np.zeros((2, 1), np.float32),
        "links": np.zeros((2, 2), np.float32),
        "known": np.zeros(2, np.float32),
    }
    server = Server(("a",), Randomness(0, "the server", 1))
    merged = rule.merge(Payload(start), replied([("a", reply)]), server).arrays
    assert merged["nodes"].flatten() == pytest.approx([1, -2], abs=0.2)
    assert merged["links"][0, 1] < 0.5  # a link would mix the classes
    assert merged["known"].tolist() == [1, 1]


def test_weights_of_nodes_by_hand(path: NodeGraph) -> None:
    """Training neighbours of node 0: one of its class. Of node 1: one of two. Of node 2: none of
    one. So H = 3/2 for class 0 and 0 for class 1, and the factors are 1 / (1 + ln 5/2) and 1.

    Without propagation a training node has the weight of its class; the others have none, so that
    their weight is the mean.
    """
    common = 1 / (1 + math.log(2.5))
    rows, labels = torch.arange(3), path.labels[:3]
    rule = AdaptiveDistillation(strength=0.5, largest=0.4, label_steps=0)
    expected = [common / 2, common / 2, 0.4, (common + 1) / 4, (common + 1) / 4]
    assert rule.weights(path, rows, labels).tolist() == pytest.approx(expected)


def test_propagated_labels_by_hand(path: NodeGraph) -> None:
    """Node 3 gets 0.9 / √2 of the label of node 2, its only neighbour, whose degree is 2."""
    rule = AdaptiveDistillation(strength=1.0, largest=1.0, label_steps=1, label_share=0.9)
    rows, labels = torch.arange(3), path.labels[:3]
    assert rule.weights(path, rows, labels)[3].item() == pytest.approx(0.9 / math.sqrt(2))


def test_sites_learn_from_the_surrogate_once(tiny_client: Callable[..., Client]) -> None:
    """The teacher is kept from the first round; without a surrogate a site trains alone."""
    distillation = AdaptiveDistillation(surrogate_epochs=3, strength=0.0)
    method = assembled(o_pfgl(NodeNetwork(hidden=2), distillation=distillation))
    alone = tiny_client("rings", method).answer(request(1, True, {}))
    shape = method.task.shape(tiny_client("rings", method).samples)
    surrogate = {
        "nodes": np.eye(shape.classes, shape.features, dtype=np.float32),
        "links": np.zeros((shape.classes, shape.classes), np.float32),
        "known": np.ones(shape.classes, np.float32),
    }
    node = tiny_client("trees", method)
    assert alone.numbers["loss"] > 0
    node.answer(request(1, True, {}, extras=surrogate))
    first = node.snapshots.load(2).arrays
    taught = {name: array for name, array in first.items() if "teacher" in name}
    node.answer(request(2, True, {}, last=1, extras=surrogate))
    second = node.snapshots.load(4).arrays
    assert len(taught) == 4
    assert all(np.array_equal(second[name], array) for name, array in taught.items())


def test_a_stopped_run_ends_with_the_same_result_and_is_not_summed(tmp_path: Path) -> None:
    whole = planted_run("o-pfgl", tmp_path / "whole", **QUICK)
    for stopped in (1, 3):  # among the stage's replies, and in training
        resumed = stopped_and_resumed(whole, tmp_path / f"stopped-{stopped}", stopped)
        assert resumed == whole.summary.sha256
    assert "stages" in str(why_not(assembled(o_pfgl()), Can.SECURE))
