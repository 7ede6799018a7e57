"""Hiding nodes, telling what is hidden, and mending."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ramet.data import NodeGraph
from ramet.models import MendedSAGE, NodeNetwork, NodeSAGE, NodeShape
from ramet.models.missing_neighbours import (
    Impaired,
    NeighbourGenerator,
    distances_to_nearest,
    impaired,
)


def star_graph(stars: int, leaves: int) -> NodeGraph:
    """Stars of one centre (feature 1, 0) and its leaves (feature 0, 1)."""
    nodes = stars * (leaves + 1)
    place = torch.arange(nodes)
    is_leaf = place % (leaves + 1) > 0
    return NodeGraph(
        features=torch.stack([~is_leaf, is_leaf], dim=1).float(),
        labels=is_leaf.long(),
        classes=2,
        left=(place - place % (leaves + 1))[is_leaf].to(torch.int32),
        right=place[is_leaf].to(torch.int32),
        kinds=torch.zeros(int(is_leaf.sum()), dtype=torch.uint8),
        kind_names=("link",),
        trained=torch.ones(nodes, dtype=torch.bool),
    )


def test_what_is_hidden_is_told_by_those_who_lack_it(small_graph: NodeGraph) -> None:
    torch.manual_seed(0)
    shown = impaired(small_graph, 0.3)
    assert 0 < shown.graph.nodes < small_graph.nodes
    rows = {tuple(row): place for place, row in enumerate(small_graph.features.tolist())}
    visible = [rows[tuple(row)] for row in shown.graph.features.tolist()]
    lost = small_graph.degrees[visible] - shown.graph.degrees
    assert torch.equal(shown.lacks, lost.long())
    assert shown.hidden.size(0) == int(shown.lacks.sum())
    linked = {
        frozenset(pair)
        for pair in zip(small_graph.left.tolist(), small_graph.right.tolist(), strict=True)
    }
    owners = torch.repeat_interleave(shown.lacks).tolist()
    for owner, row in zip(owners, shown.hidden.tolist(), strict=True):
        assert frozenset((visible[owner], rows[tuple(row)])) in linked


def test_each_made_neighbour_is_compared_with_the_nearest_of_its_owner() -> None:
    """Node 0 lacks (0, 0) and (4, 0), node 2 lacks (9, 9); node 1 lacks nothing."""
    hidden = torch.tensor([[0.0, 0.0], [4.0, 0.0], [9.0, 9.0]])
    shown = Impaired(star_graph(1, 2), torch.tensor([2, 0, 1]), hidden)
    made = torch.tensor([[1.0, 0.0], [3.0, 2.0], [0.0, 9.0]], requires_grad=True)
    distances = distances_to_nearest(made, torch.tensor([0, 0, 2]), shown)
    assert distances.tolist() == [1.0, 1.0 + 4.0, 81.0]
    distances.sum().backward()  # type: ignore[no-untyped-call]
    assert made.grad is not None
    assert made.grad.tolist() == [[2.0, 0.0], [-2.0, 4.0], [-18.0, 0.0]]


def trained_on_stars() -> tuple[NeighbourGenerator, list[tuple[float, float]]]:
    torch.manual_seed(0)
    graph = star_graph(40, 4)
    generator = NeighbourGenerator(NodeShape(2, 2), hidden=16, most=5, noise=0.1)
    optimiser = torch.optim.Adam(generator.parameters(), lr=0.01)
    history = []
    for _ in range(150):
        counts, features = generator.losses(impaired(graph, 0.5))
        optimiser.zero_grad()
        (counts + features).backward()  # type: ignore[no-untyped-call]
        optimiser.step()
        history.append((counts.item(), features.item()))
    return generator.eval(), history


def test_the_generator_learns_how_many_are_missing_and_what_they_look_like() -> None:
    generator, history = trained_on_stars()
    for loss in (0, 1):
        first = sum(step[loss] for step in history[:10])
        assert sum(step[loss] for step in history[-10:]) < 0.5 * first
    mended = generator.mended(star_graph(3, 2))
    counts: Tensor = mended.degrees[:9] - star_graph(3, 2).degrees
    centres, leaves = counts[::3], counts[torch.arange(9) % 3 > 0]
    assert centres.tolist() == pytest.approx([2, 2, 2], abs=1)
    assert leaves.max() < centres.min()
    of_centres = mended.left[6:] % 3 == 0
    assert torch.allclose(mended.features[9:][of_centres], torch.tensor([0.0, 1.0]), atol=0.4)


def test_a_mended_graph_has_new_nodes_behind_its_own(small_graph: NodeGraph) -> None:
    owners = torch.tensor([3, 3, 149])
    mended = small_graph.with_neighbours(owners, torch.ones(3, 8))
    assert (mended.nodes, mended.links) == (153, small_graph.links + 3)
    assert torch.equal(mended.features[:150], small_graph.features)
    grown = mended.degrees[:150] - small_graph.degrees
    assert (int(grown[3]), int(grown[149]), int(grown.sum())) == (2, 1, 3)
    assert mended.degrees[150:].tolist() == [1, 1, 1]
    assert not mended.trained[150:].any()


def test_logits_are_those_of_the_graphs_own_nodes(small_graph: NodeGraph) -> None:
    torch.manual_seed(0)
    model = MendedSAGE(NodeShape(8, 3))
    with torch.no_grad():
        model.generator.count.bias.fill_(2.0)
    assert model.generator.mended(small_graph).nodes > small_graph.nodes
    assert model(small_graph).shape == (150, 3)


def test_only_training_is_on_mended_graphs(small_graph: NodeGraph) -> None:
    torch.manual_seed(0)
    model = MendedSAGE(NodeShape(8, 3), NodeNetwork(dropout=0.0))
    with torch.no_grad():
        model.generator.count.weight.zero_()
        model.generator.count.bias.fill_(1.0)
    plain = model.classifier(small_graph)
    assert not torch.allclose(model(small_graph), plain, atol=1e-3)
    assert torch.equal(model.eval()(small_graph), plain)
    with torch.no_grad():
        model.generator.count.bias.fill_(-1.0)  # nothing is missing
    assert torch.allclose(model.train()(small_graph), plain)


def test_a_graph_without_links_lacks_nothing(small_graph: NodeGraph) -> None:
    none = small_graph.left[:0]
    alone = replace(small_graph, left=none, right=none, kinds=small_graph.kinds[:0])
    generator = NeighbourGenerator(NodeShape(8, 3))
    assert float(generator.losses(impaired(alone, 0.5))[1]) == 0.0


def test_sage_is_that_of_pyg(small_graph: NodeGraph) -> None:
    from torch_geometric.nn import SAGEConv

    torch.manual_seed(0)
    model = NodeSAGE(NodeShape(8, 3), NodeNetwork(hidden=4)).eval()
    x = small_graph.features
    edges = torch.stack([small_graph.left, small_graph.right]).long()
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    for layer, wide in zip(model.layers, (8, 4), strict=True):
        state = {key.replace("neighbours", "lin_l"): w for key, w in layer.state_dict().items()}
        oracle = SAGEConv(wide, 4)
        oracle.load_state_dict({key.replace("own", "lin_r"): w for key, w in state.items()})
        x = oracle(x, edges).relu()
    assert torch.allclose(model(small_graph), model.classify(x), atol=1e-5)
