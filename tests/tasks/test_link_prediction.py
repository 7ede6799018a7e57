from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch_geometric.metrics import LinkPredMRR

from ramet.errors import RametError
from ramet.methods import fedda, fedlit
from ramet.rules.method import Method, assembled
from ramet.tasks import LinkPrediction
from ramet.tasks.link_prediction import mean_reciprocal_rank


def test_mrr_by_hand() -> None:
    heads = np.array([1, 1, 1, 2, 2, 3])
    scores = np.array([0.9, 0.5, 0.1, 0.3, 0.3, 0.7])
    labels = np.array([0, 1, 1, 1, 0, 0])
    # head 1: the best link ranks second; head 2: a tie, so second; head 3: no link
    assert mean_reciprocal_rank(heads, scores, labels) == pytest.approx((1 / 2 + 1 / 2) / 2)


def test_mrr_equals_pygs() -> None:
    rng = np.random.default_rng(0)
    heads, scores = np.repeat(np.arange(20), 8), rng.normal(size=160)
    labels = (rng.random(160) < 0.3).astype(float)
    labels[::8] = 1  # every head has a link
    ranked = np.argsort(-scores.reshape(20, 8), axis=1)
    metric = LinkPredMRR(k=8)
    true = np.argwhere(labels.reshape(20, 8) > 0).T
    metric.update(torch.from_numpy(ranked.copy()), torch.from_numpy(true.copy()))
    assert mean_reciprocal_rank(heads, scores, labels) == pytest.approx(float(metric.compute()))


def test_negatives_are_redrawn_and_have_the_right_type(
    tiny_samples: Callable[[str, Method], Any],
) -> None:
    task = LinkPrediction()
    samples = tiny_samples("trees", assembled(fedda(), task))
    graph = samples.graph

    def epoch(seed: int) -> Any:
        (batch,) = task.batches(samples, 8192, torch.Generator().manual_seed(seed))
        return batch

    one, other = epoch(1), epoch(2)
    count = len(one.pairs) // 2
    assert count == int(graph.learned.sum())
    assert one.labels.tolist() == [1.0] * count + [0.0] * count
    assert not torch.equal(
        one.pairs.tails[count:].sort().values, other.pairs.tails[count:].sort().values
    )
    assert torch.equal(one.pairs.tails, epoch(1).pairs.tails)
    for kind, relation in enumerate(graph.relations):
        tails = one.pairs.tails[one.pairs.kinds == kind]
        first, end = graph.type_starts[relation.tail : relation.tail + 2]
        assert ((tails >= first) & (tails < end)).all()


def test_scores_are_reported_per_relation_and_as_their_mean(
    tiny_samples: Callable[[str, Method], Any],
) -> None:
    method = assembled(fedda(), LinkPrediction())
    samples = tiny_samples("trees", method)
    model = method.model(method.task.shape(samples))
    scores = method.task.evaluate(model, samples, torch.device("cpu"))
    by_relation = [scores[f"auc of rule-{kind}"] or 0.0 for kind in range(3)]
    assert scores["test"] == pytest.approx(sum(by_relation) / 3)
    assert {"val", "test", "mrr", "mrr of rule-2"} <= scores.keys()
    assert method.task.evaluate(model, samples, torch.device("cpu")) == scores  # no dropout


def test_data_of_another_task_is_refused(tiny_samples: Callable[[str, Method], Any]) -> None:
    from ramet.data import ClientData

    nodes = tiny_samples("trees", fedlit())
    with pytest.raises(
        RametError, match=r"link-prediction needs HeteroGraph data, .* hold NodeGraph data"
    ):
        LinkPrediction().samples(ClientData(nodes.graph, nodes.split))
