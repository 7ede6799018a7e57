from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch_geometric.data import HeteroData
from torch_geometric.datasets import HGBDataset

from ramet.data.graphs.hetero_graph import HeteroGraph, Links, from_hetero_data
from ramet.data.link_split import Negatives, split_links
from ramet.data.sources.hetero_graphs import read_amazon, read_hgb, read_planted_hetero
from ramet.errors import RametError


def pairs(links: Links) -> set[tuple[int, int, int]]:
    return set(zip(links.heads.tolist(), links.tails.tolist(), links.kinds.tolist(), strict=True))


def small() -> HeteroData:
    data = HeteroData()
    data["film"].x = torch.ones(3, 2)
    data["person"].num_nodes = 2
    data["film", "with", "person"].edge_index = torch.tensor([[0, 1, 2], [0, 0, 1]])
    data["person", "in", "film"].edge_index = torch.tensor([[1, 0, 0], [2, 1, 0]])
    data["film", "after", "film"].edge_index = torch.tensor([[1, 2], [0, 1]])
    data["film", "before", "film"].edge_index = torch.tensor([[0, 1], [1, 2]])
    return data


def test_reversed_edge_types_are_dropped() -> None:
    graph = from_hetero_data(small())
    assert [relation.name for relation in graph.relations] == [
        "film-with-person",
        "film-after-film",
    ]
    assert pairs(graph.links) == {(0, 3, 0), (1, 3, 0), (2, 4, 0), (1, 0, 1), (2, 1, 1)}
    assert [kind.width for kind in graph.types] == [2, 2]  # features, and an embedding per person
    assert graph.type_starts == [0, 3, 5]


def test_the_whole_graph_ignores_relations_and_counts_each() -> None:
    graph = from_hetero_data(small())
    matrix = torch.zeros(5, 5)
    for head, tail in ((0, 3), (1, 3), (2, 4), (1, 0), (2, 1)):
        matrix[head, tail] = matrix[tail, head] = 1
    assert torch.equal(graph.whole.adjacency.to_dense(), matrix)
    assert graph.whole.degrees.tolist() == [2, 3, 2, 2, 1]
    scale = graph.whole.gcn_scale.flatten()
    assert torch.allclose(scale, torch.tensor([3.0, 4.0, 3.0, 3.0, 2.0]).rsqrt())
    twice = replace(graph, links=Links.joined([graph.links, graph.links]))
    assert torch.equal(twice.whole.adjacency.to_dense(), 2 * matrix)


@pytest.mark.parametrize("negatives", ["random", "2hop"])
def test_held_out_links_are_disjoint_and_negatives_are_not_links(negatives: Negatives) -> None:
    split = read_planted_hetero(100, 3, 400, 5, 1, negatives)
    train = pairs(split.content.links)
    assert len(train) == 3 * 340
    for held_out, count in ((split.split.val, 3 * 20), (split.split.test, 3 * 40)):
        links = held_out.pairs[(held_out.labels == 1).nonzero().flatten()]
        others = held_out.pairs[(held_out.labels == 0).nonzero().flatten()]
        assert len(links) == len(others) == count
        assert not pairs(links) & train
        assert not pairs(others) & (train | pairs(links))
        assert torch.equal(links.heads, others.heads)
        assert torch.equal(links.kinds, others.kinds)
    assert not pairs(split.split.val.pairs) & pairs(split.split.test.pairs) & train


def test_2hop_negatives_are_within_two_steps() -> None:
    split = read_planted_hetero(100, 3, 400, 5, 1, "2hop")
    flow = split.content.flow
    neighbours: dict[int, set[int]] = {node: set() for node in range(200)}
    for source, target in zip(flow.sources.tolist(), flow.targets.tolist(), strict=True):
        neighbours[source].add(target)
    held_out = split.split.test
    for index in (held_out.labels == 0).nonzero().flatten().tolist():
        head, tail = int(held_out.pairs.heads[index]), int(held_out.pairs.tails[index])
        assert any(tail in neighbours[middle] for middle in neighbours[head])


def test_the_same_seed_gives_the_same_split() -> None:
    whole = from_hetero_data(small())
    doubled = HeteroGraph(
        whole.types, whole.relations, Links.joined([whole.links] * 8), torch.ones(40).bool()
    )
    one, same, other = (split_links(doubled, seed, "random").content.links for seed in (1, 1, 2))
    assert torch.equal(one.heads, same.heads)
    assert not torch.equal(one.heads, other.heads)


@pytest.mark.data
def test_amazon_has_gatnes_sizes(data_root: Path) -> None:
    split = read_amazon(data_root, 123, "random")
    assert split.content.nodes == 10_099
    held = [int(held_out.labels.sum()) for held_out in (split.split.val, split.split.test)]
    assert [len(split.content.links), *held] == [126_535, 7_378, 14_746]


@pytest.mark.data
@pytest.mark.thorough
def test_acm_is_hgbs_without_leaking_features(data_root: Path) -> None:
    split = read_hgb(data_root, "acm", 123, "random")
    assert [kind.nodes for kind in split.content.types] == [3025, 5959, 56]
    assert [kind.features is None for kind in split.content.types] == [False, True, True]
    held = sum(int(held_out.labels.sum()) for held_out in (split.split.val, split.split.test))
    assert len(split.content.links) + held == 547_872 // 2 - 255_619


@pytest.mark.data
def test_features_of_the_original_acm_reveal_links(data_root: Path) -> None:
    """Words equal terms, and authors have the words of their papers, so both are left out."""
    data = HGBDataset(str(data_root / "HGB"), "acm")[0]
    words, authors = data["paper"].x > 0, data["author"].x > 0
    paper, term = data["paper", "to", "term"].edge_index
    assert int(words.sum()) == paper.numel()
    assert bool(words[paper, term].all())
    paper, author = data["paper", "to", "author"].edge_index
    seen = torch.zeros(authors.shape).index_add_(0, author, words[paper].float())
    assert torch.equal(seen > 0, authors)


def test_missing_amazon_says_where_to_get_it(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="GATNE's Amazon is not in"):
        read_amazon(tmp_path, 1, "random")
