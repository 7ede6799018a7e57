"""Hiding nodes, predicting hidden neighbours, and mending graphs."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor

from ramet.data import NodeGraph
from ramet.models.missing_neighbours import (
    Impaired,
    NeighbourGenerator,
    distances_to_nearest,
    impaired,
)
from ramet.models.node_sage import MendedSAGE, NodeSAGE
from ramet.models.settings import NodeNetwork
from ramet.models.shape import NodeShape


def star_graph(stars: int, leaves: int) -> NodeGraph:
    """Stars, each with a centre (features 1, 0) and leaves (features 0, 1)."""
    nodes = stars * (leaves + 1)
    index = torch.arange(nodes)
    is_leaf = index % (leaves + 1) > 0
    return NodeGraph(
        features=torch.stack([~is_leaf, is_leaf], dim=1).float(),
        labels=is_leaf.long(),
        classes=2,
        left=(index - index % (leaves + 1))[is_leaf].to(torch.int32),
        right=index[is_leaf].to(torch.int32),
        kinds=torch.zeros(int(is_leaf.sum()), dtype=torch.uint8),
        kind_names=("link",),
        trained=torch.ones(nodes, dtype=torch.bool),
    )


def test_hidden_neighbours_are_listed_for_each_visible_node(small_graph: NodeGraph) -> None:
    torch.manual_seed(0)
    part = impaired(small_graph, 0.3)
    assert 0 < part.graph.nodes < small_graph.nodes
    rows = {tuple(row): node for node, row in enumerate(small_graph.features.tolist())}
    visible = [rows[tuple(row)] for row in part.graph.features.tolist()]
    lost = small_graph.degrees[visible] - part.graph.degrees
    assert torch.equal(part.missing, lost.long())
    assert part.hidden.size(0) == int(part.missing.sum())
    linked = {
        frozenset(pair)
        for pair in zip(small_graph.left.tolist(), small_graph.right.tolist(), strict=True)
    }
    owners = torch.repeat_interleave(part.missing).tolist()
    for owner, row in zip(owners, part.hidden.tolist(), strict=True):
        assert frozenset((visible[owner], rows[tuple(row)])) in linked


def test_generated_nodes_are_compared_with_the_nearest_hidden_neighbour_of_their_owner() -> None:
    """Node 0 is missing (0, 0) and (4, 0), node 1 nothing, node 2 (9, 9)."""
    hidden = torch.tensor([[0.0, 0.0], [4.0, 0.0], [9.0, 9.0]])
    part = Impaired(star_graph(1, 2), torch.tensor([2, 0, 1]), hidden)
    generated = torch.tensor([[1.0, 0.0], [3.0, 2.0], [0.0, 9.0]], requires_grad=True)
    distances = distances_to_nearest(generated, torch.tensor([0, 0, 2]), part)
    assert distances.tolist() == [1.0, 1.0 + 4.0, 81.0]
    distances.sum().backward()  # type: ignore[no-untyped-call]
    assert generated.grad is not None
    assert generated.grad.tolist() == [[2.0, 0.0], [-2.0, 4.0], [-18.0, 0.0]]


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


def test_the_generator_learns_number_and_features_of_missing_neighbours() -> None:
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


def test_mending_appends_nodes(small_graph: NodeGraph) -> None:
    owners = torch.tensor([3, 3, 149])
    mended = small_graph.with_neighbours(owners, torch.ones(3, 8))
    assert (mended.nodes, mended.links) == (153, small_graph.links + 3)
    assert torch.equal(mended.features[:150], small_graph.features)
    grown = mended.degrees[:150] - small_graph.degrees
    assert (int(grown[3]), int(grown[149]), int(grown.sum())) == (2, 1, 3)
    assert mended.degrees[150:].tolist() == [1, 1, 1]
    assert not mended.trained[150:].any()


def test_there_are_no_logits_for_generated_nodes(small_graph: NodeGraph) -> None:
    torch.manual_seed(0)
    model = MendedSAGE(NodeShape(8, 3))
    with torch.no_grad():
        model.generator.count.bias.fill_(2.0)
    assert model.generator.mended(small_graph).nodes > small_graph.nodes
    assert model(small_graph).shape == (150, 3)


def test_only_training_uses_mended_graphs(small_graph: NodeGraph) -> None:
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


def test_a_graph_without_links_is_missing_nothing(small_graph: NodeGraph) -> None:
    none = small_graph.left[:0]
    isolated = replace(small_graph, left=none, right=none, kinds=small_graph.kinds[:0])
    generator = NeighbourGenerator(NodeShape(8, 3))
    assert float(generator.losses(impaired(isolated, 0.5))[1]) == 0.0


def test_sage_equals_pygs(small_graph: NodeGraph) -> None:
    from torch_geometric.nn import SAGEConv

    torch.manual_seed(0)
    model = NodeSAGE(NodeShape(8, 3), NodeNetwork(hidden=4)).eval()
    x = small_graph.features
    edges = torch.stack([small_graph.left, small_graph.right]).long()
    edges = torch.cat([edges, edges.flip(0)], dim=1)
    for layer, width in zip(model.layers, (8, 4), strict=True):
        state = {key.replace("neighbours", "lin_l"): w for key, w in layer.state_dict().items()}
        reference = SAGEConv(width, 4)
        reference.load_state_dict({key.replace("own", "lin_r"): w for key, w in state.items()})
        x = reference(x, edges).relu()
    assert torch.allclose(model(small_graph), model.classify(x), atol=1e-5)
