"""Every message-passing layer against PyG's, on small and real graphs, dense and sparse."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv

from ramet.data import GraphBlock, NodeGraph
from ramet.data.sources.node_graphs import read_nodes
from ramet.models.attention import GATLayer, gathered_sums, softmax, weighted_sums
from ramet.models.layers import GCNLayer, GINLayer, SAGELayer
from ramet.models.plain_node import NodeGAT, NodeGCN, NodeGIN, PlainNodeSAGE
from ramet.models.settings import NodeAttentionNetwork, NodeNetwork
from ramet.models.shape import NodeShape


def gin(in_width: int, out_width: int) -> tuple[GINLayer, Any, list[Tensor]]:
    """A layer, PyG's with the same weights, and PyG's parameters in the layer's order."""
    layer = GINLayer(in_width, out_width, inner=9)
    theirs = GINConv(nn.Sequential(layer.first, nn.ReLU(), layer.second), eps=0.0)
    return layer, theirs, list(theirs.parameters())


def sage(in_width: int, out_width: int) -> tuple[SAGELayer, Any, list[Tensor]]:
    layer, theirs = SAGELayer(in_width, out_width), SAGEConv(in_width, out_width)
    theirs.lin_l, theirs.lin_r = layer.neighbours, layer.own
    return layer, theirs, list(theirs.parameters())


def gcn(in_width: int, out_width: int) -> tuple[GCNLayer, Any, list[Tensor]]:
    layer, theirs = GCNLayer(in_width, out_width), GCNConv(in_width, out_width)
    nn.init.normal_(layer.bias)
    theirs.lin.weight, theirs.bias = layer.weight, layer.bias
    return layer, theirs, [theirs.lin.weight, theirs.bias]


def gat(in_width: int, out_width: int, heads: int = 3) -> tuple[GATLayer, Any, list[Tensor]]:
    layer, theirs = (
        GATLayer(in_width, out_width, heads),
        GATConv(in_width, out_width // heads, heads),
    )
    nn.init.normal_(layer.bias)
    theirs.lin.weight, theirs.bias = layer.weight, layer.bias
    theirs.att_src = nn.Parameter(layer.of_source.detach().unsqueeze(0))
    theirs.att_dst = nn.Parameter(layer.of_target.detach().unsqueeze(0))
    return layer, theirs, [theirs.lin.weight, theirs.att_src, theirs.att_dst, theirs.bias]


def single_head(in_width: int, out_width: int) -> tuple[GATLayer, Any, list[Tensor]]:
    return gat(in_width, out_width, heads=1)


LAYERS = [gin, sage, gcn, gat, single_head]
Make = Callable[[int, int], tuple[nn.Module, Any, list[Tensor]]]


@pytest.fixture(params=["planted", pytest.param("cora", marks=pytest.mark.data)])
def graph(request: pytest.FixtureRequest) -> NodeGraph:
    if request.param == "planted":
        planted: NodeGraph = request.getfixturevalue("small_graph")
        return planted
    root: Path = request.getfixturevalue("data_root")
    return read_nodes(root, "Planetoid", "Cora")


def assert_close(actual: Iterable[Tensor], expected: Iterable[Tensor]) -> None:
    for one, other in zip(actual, expected, strict=True):
        one, other = one.detach(), other.detach().view_as(one)
        assert float((one - other).abs().max()) <= 1e-5 * max(1.0, float(other.abs().max()))


@pytest.mark.parametrize("make", LAYERS)
def test_layers_and_their_gradients_equal_pygs(make: Make, graph: NodeGraph) -> None:
    torch.manual_seed(0)
    layer, theirs, their_parameters = make(7, 6)
    values = torch.randn(graph.nodes, 7, requires_grad=True)
    direction = torch.randn(graph.nodes, 6) / graph.nodes**0.5
    actual, expected = layer(values, graph.whole), theirs(values, graph.edge_index)
    assert_close([actual], [expected])
    assert_close(
        torch.autograd.grad((actual * direction).sum(), [values, *layer.parameters()]),
        torch.autograd.grad((expected * direction).sum(), [values, *their_parameters]),
    )


@pytest.mark.parametrize("make", LAYERS)
def test_layers_equal_pygs_on_a_batch_with_an_isolated_node(
    make: Make, two_graphs: GraphBlock
) -> None:
    torch.manual_seed(0)
    layer, theirs, _ = make(4, 6)
    batch = two_graphs.cut(torch.tensor([1, 0]))
    values = torch.randn(batch.nodes, 4)
    assert_close([layer(values, batch.whole)], [theirs(values, batch.edge_index)])


@pytest.mark.data
@pytest.mark.parametrize("make", LAYERS)
def test_sparse_features_equal_dense_ones(make: Make, data_root: Path) -> None:
    cora = read_nodes(data_root, "Planetoid", "Cora")
    assert cora.sparse_features is not None
    assert cora.compact_features is cora.sparse_features
    torch.manual_seed(0)
    layer, _, _ = make(cora.features.size(1), 6)
    direction = torch.randn(cora.nodes, 6) / cora.nodes**0.5
    sparse, dense = (layer(rows, cora.whole) for rows in (cora.sparse_features, cora.features))
    assert_close([sparse], [dense])
    assert_close(
        torch.autograd.grad((sparse * direction).sum(), list(layer.parameters())),
        torch.autograd.grad((dense * direction).sum(), list(layer.parameters())),
    )


@pytest.mark.parametrize("heads", [1, 4])
def test_sums_with_a_vector_per_link_equal_products(heads: int, small_graph: NodeGraph) -> None:
    torch.manual_seed(0)
    flow = small_graph.whole.flow
    scores = torch.randn(flow.sources.numel(), heads, requires_grad=True)
    values = torch.randn(flow.nodes, heads, 5, requires_grad=True)
    direction = torch.randn(flow.nodes, heads, 5)
    results = [sums(softmax(scores, flow), values, flow) for sums in (weighted_sums, gathered_sums)]
    assert_close([results[0]], [results[1]])
    gradients = [
        torch.autograd.grad((sums * direction).sum(), (scores, values)) for sums in results
    ]
    assert_close(*gradients)


def test_attention_weights_sum_to_1_per_node_whatever_the_scale(small_graph: NodeGraph) -> None:
    flow = small_graph.whole.flow
    scores = 500 * torch.randn(flow.sources.numel(), 2, generator=torch.Generator().manual_seed(0))
    sums = torch.zeros(flow.nodes, 2).index_add(0, flow.targets, softmax(scores, flow))
    assert_close([sums], [torch.ones(flow.nodes, 2)])


def test_a_two_layer_gcn_by_hand(small_graph: NodeGraph) -> None:
    model = NodeGCN(NodeShape(8, 3), NodeNetwork(hidden=5)).eval()
    matrix = small_graph.whole.adjacency.to_dense() + torch.eye(small_graph.nodes)
    factor = matrix.sum(dim=1).rsqrt()
    norm = factor[:, None] * matrix * factor
    first, last = model.layers
    hidden = (norm @ small_graph.features @ first.weight.T + first.bias).relu()  # type: ignore[operator]
    assert_close([model(small_graph)], [norm @ hidden @ last.weight.T + last.bias])  # type: ignore[operator]


@pytest.mark.parametrize(
    ("model", "activation"),
    [
        (PlainNodeSAGE(NodeShape(8, 3), NodeNetwork(layers=3)), torch.relu),
        (NodeGIN(NodeShape(8, 3), NodeNetwork(layers=3)), torch.relu),
        (NodeGAT(NodeShape(8, 3), NodeAttentionNetwork(layers=3)), nn.functional.elu),
    ],
)
def test_node_networks_are_layers_with_activations_between(
    model: nn.Module, activation: Callable[[Tensor], Tensor], small_graph: NodeGraph
) -> None:
    first, middle, last = model.eval().layers  # type: ignore[misc]
    x = activation(first(small_graph.features, small_graph.whole))
    x = activation(middle(x, small_graph.whole))
    assert torch.equal(model(small_graph), last(x, small_graph.whole))


def test_the_last_attention_layer_has_one_head() -> None:
    model = NodeGAT(NodeShape(8, 3), NodeAttentionNetwork(hidden=12, heads=4, layers=3))
    shapes = [p.shape for name, p in model.named_parameters() if name.endswith("of_source")]
    assert shapes == [(4, 3), (4, 3), (1, 3)]
