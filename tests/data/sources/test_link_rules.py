"""Graphs with hidden kinds of links, planted or made by rules."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from torch_geometric.data import HeteroData

from ramet.data.graphs.node_graph import edge_homophily
from ramet.data.sources.link_rules import Direct, Noise, Rule, Shares, latent_graph
from ramet.data.sources.linked_kinds import read_acm_links
from ramet.data.sources.planted import PlantedKind, planted
from ramet.data.splits import node_fold_split
from ramet.errors import RametError


def test_planted_kinds_have_the_given_homophily() -> None:
    kinds = [PlantedKind(5000, 0.9, 1.0), PlantedKind(5000, 0.3, 0.0)]
    graph = planted(1000, 4, kinds, seed=1)
    first, second = ((graph.kinds == kind).nonzero().flatten() for kind in (0, 1))
    assert edge_homophily(graph, first) == pytest.approx(0.9, abs=0.02)
    assert edge_homophily(graph, second) == pytest.approx(0.3, abs=0.02)
    touched = [
        torch.unique(torch.cat([graph.left[k], graph.right[k]])).numel() for k in (first, second)
    ]
    assert touched[0] < 720 < 990 < touched[1]  # two of three groups, and all of them
    assert (graph.left < graph.right).all()
    again = planted(1000, 4, kinds, seed=1)
    assert torch.equal(graph.features, again.features)
    assert torch.equal(graph.right, again.right)


@pytest.fixture
def papers() -> HeteroData:
    data = HeteroData()
    data["paper"].x = torch.tensor([[1.0, 0], [1, 0.1], [0, 1], [0, 1.1]])
    data["paper"].y = torch.tensor([0, 0, 1, 1])
    data["author"].num_nodes = 2
    data["paper", "cites", "paper"].edge_index = torch.tensor([[0, 1, 2, 2], [1, 0, 3, 2]])
    data["paper", "by", "author"].edge_index = torch.tensor([[0, 1, 2, 0, 2], [0, 0, 0, 1, 1]])
    return data


def pairs(links: torch.Tensor) -> set[tuple[int, int]]:
    return {(int(a), int(b)) for a, b in links.T}


def test_rules_by_hand(papers: HeteroData) -> None:
    draw = np.random.default_rng(0)
    assert pairs(Direct("cites")(papers, "paper", draw)) == {(0, 1), (2, 3)}
    assert pairs(Shares("author")(papers, "paper", draw)) == {(0, 1), (0, 2), (1, 2)}
    assert pairs(Shares("author", at_least=2)(papers, "paper", draw)) == {(0, 2)}
    assert Shares("author", most=2)(papers, "paper", draw).size(1) == 2
    noise = Noise(5)(papers, "paper", draw)
    assert len(pairs(noise)) == 5
    assert (noise[0] < noise[1]).all()
    with pytest.raises(RametError, match="paper-cites-paper"):
        Direct("likes")(papers, "paper", draw)


def test_a_latent_graph_keeps_the_true_kinds_of_links(papers: HeteroData) -> None:
    rules: dict[str, Rule] = {"cites": Direct("cites"), "author": Shares("author")}
    graph = latent_graph(papers, "paper", rules)
    assert graph.kind_names == ("cites", "author")
    assert graph.kinds.tolist() == [0, 0, 1, 1, 1]
    papers["paper"].y[0] = -1
    with pytest.raises(RametError, match="no label"):
        latent_graph(papers, "paper", rules)


def test_acm_links(data_root: Path) -> None:
    graph = read_acm_links(data_root, 30_000, 30_000)
    assert (graph.nodes, graph.features.size(1), graph.classes) == (3025, 1902, 3)
    assert torch.bincount(graph.kinds).tolist() == [5310, 13374, 30_000, 30_000]
    homophily = [edge_homophily(graph, (graph.kinds == k).nonzero().flatten()) for k in range(4)]
    assert homophily == pytest.approx([0.88, 0.79, 0.64, 0.33], abs=0.01)


def test_folds_share_the_test_nodes_and_cover_the_rest() -> None:
    labels = torch.arange(100) % 4
    splits = [node_fold_split(labels, 123, fold) for fold in range(10)]
    assert all(torch.equal(split.test, splits[0].test) for split in splits)
    chosen = torch.cat([split.val for split in splits])
    assert sorted([*chosen.tolist(), *splits[0].test.tolist()]) == list(range(100))
    assert not set(splits[3].train.tolist()) & set(splits[3].val.tolist())
