"""Noisy and missing features, links and labels."""

from __future__ import annotations

import pytest
import torch

from ramet.data import ClientData, NodeGraph, Split
from ramet.data.sources.planted import PlantedKind, planted
from ramet.data.splits import node_split
from ramet.partition.corruption import Corruption

GRAPH = planted(300, 4, [PlantedKind(500, 0.8, 0.9)], seed=3)
HELD = ClientData(GRAPH, node_split(GRAPH.labels, 1))


def corrupted(seed: int = 5, **corruption: float) -> tuple[NodeGraph, Split]:
    held = Corruption(**corruption).applied(HELD, seed)
    assert torch.equal(held.split.test, HELD.split.test)
    for part in (HELD.split.val, HELD.split.test):
        assert torch.equal(held.content.labels[part], GRAPH.labels[part])
    return held.content, held.split


def test_without_corruption_nothing_changes() -> None:
    graph, split = corrupted()
    assert all(torch.equal(value, GRAPH.tensors()[name]) for name, value in graph.tensors().items())
    assert torch.equal(split.train, HELD.split.train)
    assert not Corruption()
    assert Corruption(missing_links=0.1)


def test_features_are_noisy_or_missing() -> None:
    noise = corrupted(feature_noise=0.5)[0].features - GRAPH.features
    assert float(noise.std() / GRAPH.features.std()) == pytest.approx(0.5, rel=0.05)
    missing = corrupted(missing_features=0.3)[0].features
    nonzero = GRAPH.features != 0
    assert float((missing[nonzero] == 0).double().mean()) == pytest.approx(0.3, abs=0.05)


def test_links_are_removed_or_added() -> None:
    assert corrupted(missing_links=0.25)[0].links == GRAPH.links - GRAPH.links // 4
    graph = corrupted(random_links=0.5)[0]
    assert GRAPH.links * 1.45 < graph.links <= GRAPH.links * 1.5
    assert bool((graph.left < graph.right).all())
    assert graph.kinds.numel() == graph.links


def test_training_labels_are_wrong_or_missing() -> None:
    train = HELD.split.train
    wrong = corrupted(wrong_labels=0.4)[0].labels[train] != GRAPH.labels[train]
    assert int(wrong.sum()) == int(0.4 * train.numel())
    kept = corrupted(missing_labels=0.9)[1].train
    assert kept.numel() == train.numel() - int(0.9 * train.numel())
    assert set(kept.tolist()) < set(train.tolist())


def test_flaws_depend_on_the_seed() -> None:
    first, again, other = (corrupted(seed, missing_links=0.5)[0].left for seed in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
