"""Networks for node classification with kinds of links."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import nn

from ramet.data import NodeGraph
from ramet.data.graphs.channel import scale
from ramet.data.graphs.node_graph import edge_subgraph
from ramet.metrics import count_operations
from ramet.models.layers import apply_linear
from ramet.models.multi_channel_gcn import GCN, MultiChannelGCN
from ramet.models.settings import GCNNetwork, LinkClustering, MultiChannelNetwork
from ramet.models.shape import NodeShape

SHAPE = NodeShape(features=8, classes=3)
CLUSTERING = LinkClustering(smallest=0)


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


def test_channels_hold_the_links_of_their_kind(graph: NodeGraph) -> None:
    assert torch.equal(graph.whole.adjacency.to_dense(), dense(graph))
    for kind, channel in enumerate(graph.channels(graph.kinds, 4)):
        assert torch.equal(channel.adjacency.to_dense(), dense(graph, kind))
        assert torch.equal(channel.degrees, dense(graph, kind).sum(dim=1).int())
        assert torch.equal(torch.bincount(channel.rows, minlength=graph.nodes), channel.degrees)


def test_edge_index_has_the_same_links(graph: NodeGraph) -> None:
    start, end = graph.edge_index
    matrix = torch.zeros(graph.nodes, graph.nodes).index_put((end, start), torch.tensor(1.0), True)
    assert torch.equal(matrix, dense(graph))
    assert graph.x is graph.features


def test_an_edge_subgraph_has_the_chosen_links_and_their_nodes(graph: NodeGraph) -> None:
    chosen = (graph.kinds == 2).nonzero().flatten()
    part, nodes = edge_subgraph(graph, chosen)
    assert part.links == chosen.numel()
    assert (part.degrees > 0).all()
    assert torch.equal(nodes[part.left.long()].int(), graph.left[chosen])
    assert torch.equal(part.labels, graph.labels[nodes])


def test_sparse_features_equal_dense_ones(graph: NodeGraph) -> None:
    words = (torch.rand(graph.nodes, 40) < 0.05).float()
    bags = replace(graph, features=words)
    assert graph.sparse_features is None
    assert bags.sparse_features is not None
    linear = nn.Linear(40, 6)
    grad = torch.randn(graph.nodes, 6)
    sparse = apply_linear(linear, bags)
    (sparse * grad).sum().backward()  # type: ignore[no-untyped-call]
    assert linear.weight.grad is not None
    assert torch.allclose(sparse, linear(words), atol=1e-6)
    assert torch.allclose(linear.weight.grad, grad.T @ words, atol=1e-5)
    with count_operations() as work:
        apply_linear(linear, bags)
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


def test_one_channel_for_all_links_equals_a_gcn(graph: NodeGraph) -> None:
    one_kind = replace(graph, kinds=torch.zeros_like(graph.kinds))
    multi, gcn = MultiChannelGCN(SHAPE, MultiChannelNetwork(kinds=1)).eval(), GCN(SHAPE).eval()
    state = {name.replace("channels.0.", "channel."): v for name, v in multi.state_dict().items()}
    gcn.load_state_dict({name: v for name, v in state.items() if not name.startswith("kinds.")})
    touched = one_kind.degrees > 0
    assert torch.allclose(multi(one_kind)[touched], gcn(one_kind)[touched], atol=1e-5)


@pytest.mark.parametrize("mean", [False, True])
@pytest.mark.parametrize("degrees", ["graph", "channel"])
def test_a_node_sums_over_the_channels_that_touch_it(
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


def test_small_kinds_are_not_reported(graph: NodeGraph) -> None:
    torch.manual_seed(0)
    model = MultiChannelGCN(SHAPE, MultiChannelNetwork(kinds=12), LinkClustering(smallest=40))
    model(graph)
    reported = model.kinds.nodes > 0
    assert 0 < reported.sum() < 12
    assert (model.kinds.centres[reported] != 0).any(dim=1).all()
    counts = model.kinds_of(graph, model.project(graph.features).relu()).bincount(minlength=12)
    assert counts.sum() == graph.links


def test_isolated_nodes_and_a_single_link_work(graph: NodeGraph) -> None:
    single = replace(graph, left=graph.left[:1], right=graph.right[:1], kinds=graph.kinds[:1])
    for cluster in (True, False):
        model = MultiChannelGCN(SHAPE, clustering=CLUSTERING if cluster else None)
        loss = model(single).square().mean()
        loss.backward()
        assert torch.isfinite(model.eval()(single)).all()


def test_a_fixed_view_is_the_same_for_all_models_and_not_in_the_state(graph: NodeGraph) -> None:
    one, other = (
        MultiChannelGCN(SHAPE, clustering=LinkClustering(0, view="fixed")) for _ in range(2)
    )
    assert not any("view" in name for name in one.state_dict())
    learned = MultiChannelGCN(SHAPE, clustering=CLUSTERING)
    assert one.state_dict().keys() == learned.state_dict().keys()
    one.train()
    one(graph)
    other.kinds.load_state_dict(one.kinds.state_dict())
    kinds = one.eval().link_kinds(graph)
    assert not torch.equal(one.project.weight, other.project.weight)
    assert torch.equal(kinds, other.eval().link_kinds(graph))
    learned.kinds.load_state_dict(one.kinds.state_dict())
    assert not torch.equal(kinds, learned.eval().link_kinds(graph))
