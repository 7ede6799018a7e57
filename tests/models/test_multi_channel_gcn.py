"""Networks for nodes with kinds of links."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from ramet.data import NodeGraph
from ramet.data.graphs.node_graph import scale
from ramet.metrics import counted
from ramet.models import (
    GCN,
    GCNNetwork,
    LinkClustering,
    MultiChannelGCN,
    MultiChannelNetwork,
    NodeShape,
)
from ramet.models.layers import of_features

SHAPE = NodeShape(features=8, classes=3)
FOUND = LinkClustering(smallest=0)


@pytest.fixture
def graph(small_graph: NodeGraph) -> NodeGraph:
    return small_graph


def dense(graph: NodeGraph, kind: int | None = None) -> torch.Tensor:
    matrix = torch.zeros(graph.nodes, graph.nodes)
    for a, b, c in zip(graph.left, graph.right, graph.kinds, strict=True):
        if kind is None or c == kind:
            matrix[a, b] += 1
            matrix[b, a] += 1
    return matrix


def test_channels_are_the_links_of_their_kind(graph: NodeGraph) -> None:
    assert torch.equal(graph.whole.adjacency.to_dense(), dense(graph))
    for kind, channel in enumerate(graph.channels(graph.kinds, 4)):
        assert torch.equal(channel.adjacency.to_dense(), dense(graph, kind))
        assert torch.equal(channel.degrees, dense(graph, kind).sum(dim=1).int())
        assert torch.equal(torch.bincount(channel.rows, minlength=graph.nodes), channel.degrees)


def test_pygs_names_give_the_same_links(graph: NodeGraph) -> None:
    start, end = graph.edge_index
    matrix = torch.zeros(graph.nodes, graph.nodes).index_put((end, start), torch.tensor(1.0), True)
    assert torch.equal(matrix, dense(graph))
    assert graph.x is graph.features


def test_a_part_has_its_links_and_their_nodes(graph: NodeGraph) -> None:
    chosen = (graph.kinds == 2).nonzero().flatten()
    part, nodes = graph.part(chosen)
    assert part.links == chosen.numel()
    assert (part.degrees > 0).all()
    assert torch.equal(nodes[part.left.long()].int(), graph.left[chosen])
    assert torch.equal(part.labels, graph.labels[nodes])


def test_features_that_are_mostly_zero_give_the_same(graph: NodeGraph) -> None:
    words = (torch.rand(graph.nodes, 40) < 0.05).float()
    bags = replace(graph, features=words)
    assert graph.sparse_features is None
    assert bags.sparse_features is not None
    linear = nn.Linear(40, 6)
    pull = torch.randn(graph.nodes, 6)
    sparse = of_features(linear, bags)
    (sparse * pull).sum().backward()  # type: ignore[no-untyped-call]
    assert linear.weight.grad is not None
    assert torch.allclose(sparse, linear(words), atol=1e-6)
    assert torch.allclose(linear.weight.grad, pull.T @ words, atol=1e-5)
    with counted(linear) as work:
        of_features(linear, bags)
    assert sum(work.values()) == 2 * int(words.sum()) * 6


@pytest.mark.parametrize("loops", [False, True])
def test_a_gcn_by_hand(graph: NodeGraph, loops: bool) -> None:
    model = GCN(SHAPE, GCNNetwork(hidden=4, layers=1, loops=loops)).eval()
    factor = (dense(graph).sum(dim=1) + 1).rsqrt()
    matrix = dense(graph) + (torch.eye(graph.nodes) if loops else 0)
    norm = factor[:, None] * matrix * factor
    h = model.channel.project(model.project(graph.features).relu()).relu()
    layer: nn.Linear = model.channel.layers[0].linear  # type: ignore[assignment]
    expected = model.classify((norm @ h @ layer.weight.T + layer.bias).relu())
    assert torch.allclose(model(graph), expected, atol=1e-5)


def test_one_channel_for_all_links_is_a_gcn(graph: NodeGraph) -> None:
    alike = replace(graph, kinds=torch.zeros_like(graph.kinds))
    many, one = MultiChannelGCN(SHAPE, MultiChannelNetwork(kinds=1)).eval(), GCN(SHAPE).eval()
    state = {name.replace("channels.0.", "channel."): v for name, v in many.state_dict().items()}
    one.load_state_dict({name: v for name, v in state.items() if not name.startswith("kinds.")})
    touched = alike.degrees > 0
    assert torch.allclose(many(alike)[touched], one(alike)[touched], atol=1e-5)


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("degrees", ["graph", "channel"])
def test_a_node_adds_up_the_channels_that_touch_it(
    graph: NodeGraph, mean: bool, degrees: str
) -> None:
    model = MultiChannelGCN(SHAPE, MultiChannelNetwork(mean=mean, degrees=degrees)).eval()  # type: ignore[arg-type]
    h = model.project(graph.features).relu()
    total = torch.zeros_like(h)
    count = torch.zeros(graph.nodes, 1)
    for channel, links in zip(model.channels, graph.channels(graph.kinds, 4), strict=True):
        touched = ((links.degrees > 0) | (graph.degrees == 0)).float().unsqueeze(1)
        factor = graph.gcn_scale if degrees == "graph" else scale(links.degrees)
        total += channel(h, links, factor) * touched
        count += touched
    expected = model.classify(total / count.clamp(min=1) if mean else total)
    assert torch.allclose(model(graph), expected, atol=1e-6)


def test_small_kinds_are_not_told(graph: NodeGraph) -> None:
    torch.manual_seed(0)
    model = MultiChannelGCN(SHAPE, MultiChannelNetwork(kinds=12), LinkClustering(smallest=40))
    model(graph)
    told = model.kinds.nodes > 0
    assert 0 < told.sum() < 12
    assert (model.kinds.centres[told] != 0).any(dim=1).all()
    counts = model.kinds_of(graph, model.project(graph.features).relu()).bincount(minlength=12)
    assert counts.sum() == graph.links


def test_lone_nodes_and_a_single_link_work(graph: NodeGraph) -> None:
    single = replace(graph, left=graph.left[:1], right=graph.right[:1], kinds=graph.kinds[:1])
    for cluster in (True, False):
        model = MultiChannelGCN(SHAPE, clustering=FOUND if cluster else None)
        loss = model(single).square().mean()
        loss.backward()
        assert torch.isfinite(model.eval()(single)).all()


def test_a_fixed_view_is_alike_everywhere_stays_and_does_not_travel(graph: NodeGraph) -> None:
    one, other = (
        MultiChannelGCN(SHAPE, clustering=LinkClustering(0, view="fixed")) for _ in range(2)
    )
    assert not any("view" in name for name in one.state_dict())
    assert one.state_dict().keys() == MultiChannelGCN(SHAPE, clustering=FOUND).state_dict().keys()
    one.train()
    one(graph)
    other.kinds.load_state_dict(one.kinds.state_dict())
    found = one.eval().link_kinds(graph)
    assert not torch.equal(one.project.weight, other.project.weight)
    assert torch.equal(found, other.eval().link_kinds(graph))
    learned = MultiChannelGCN(SHAPE, clustering=FOUND)
    learned.kinds.load_state_dict(one.kinds.state_dict())
    assert not torch.equal(found, learned.eval().link_kinds(graph))
