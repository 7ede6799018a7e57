"""Networks with PyG's signature give the same outputs, and explainers can mask their links."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.explain import Explainer, GNNExplainer, ModelConfig
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import GCNConv

from ramet.data import Batch, NodeGraph, StructureEncoding
from ramet.data.graphs.graph_block import block_with_values
from ramet.data.graphs.link_values import LinkValues
from ramet.models.dense_dual_channel import DenseDualChannel
from ramet.models.dual_channel import DualChannel
from ramet.models.multi_channel_gcn import MultiChannelGCN
from ramet.models.networks import ALIGNED, NETWORKS, UNLINKED
from ramet.models.node_sage import MendedSAGE
from ramet.models.pyg import PyGGraphNetwork, PyGNodeNetwork
from ramet.models.settings import LinkClustering
from ramet.models.shape import GraphShape, NodeShape

FEATURES, CLASSES, NODES = 5, 3, 30


def _graph() -> NodeGraph:
    draw = torch.Generator().manual_seed(0)
    ends = torch.randint(NODES - 1, (2, 60), generator=draw)  # the last node has no links
    ends = torch.unique(torch.stack([ends.amin(dim=0), ends.amax(dim=0)]), dim=1)
    left, right = ends[:, ends[0] != ends[1]].to(torch.int32)
    return NodeGraph(
        features=torch.randn((NODES, FEATURES), generator=draw),
        labels=torch.zeros(NODES, dtype=torch.int64),
        classes=CLASSES,
        left=left,
        right=right,
        kinds=torch.randint(4, left.shape, generator=draw).to(torch.uint8),
        kind_names=("a", "b", "c", "d"),
        trained=torch.zeros(NODES, dtype=torch.bool),
        link_values=LinkValues(
            torch.randn((left.numel(), 2), generator=draw),
            torch.rand(left.numel(), generator=draw),
        ),
    )


def _node_networks() -> Iterator[tuple[str, nn.Module]]:
    shape = NodeShape(FEATURES, CLASSES, link_width=2)
    for name, by_shape in NETWORKS.items():
        if NodeShape in by_shape:
            yield name, by_shape[NodeShape](shape)
    yield "fed-mgcn", MultiChannelGCN(shape)
    fedlit = MultiChannelGCN(shape, clustering=LinkClustering())
    torch.nn.init.normal_(fedlit.kinds.centres)
    yield "fedlit", fedlit
    yield "fedsage+", MendedSAGE(shape)


def _shuffled(graph: NodeGraph | Batch) -> tuple[dict[str, Any], Tensor]:
    """The edges in another order with what they carry, and that order."""
    order = torch.randperm(graph.edge_index.size(1), generator=torch.Generator().manual_seed(1))
    assert graph.edge_attr is not None
    assert graph.edge_weight is not None
    return {
        "edge_index": graph.edge_index[:, order],
        "edge_attr": graph.edge_attr[order],
        "edge_weight": graph.edge_weight[order],
    }, order


def _masked(adapted: nn.Module, x: Tensor, given: dict[str, Any]) -> Tensor:
    """The logits if no message passes along any link."""
    nothing = torch.zeros(given["edge_index"].size(1))
    set_masks(adapted, nothing, given["edge_index"], apply_sigmoid=False)
    logits: Tensor = adapted(x, **given)
    clear_masks(adapted)
    return logits


@pytest.mark.parametrize(("name", "network"), list(_node_networks()))
def test_node_networks_give_the_same_logits(name: str, network: nn.Module) -> None:
    graph, network = _graph(), network.eval()
    given, order = _shuffled(graph)
    given["edge_type"] = graph.edge_type[order]
    adapted = PyGNodeNetwork(network).eval()
    with torch.no_grad():
        expected = network(graph)
        torch.testing.assert_close(adapted(graph.x, **given), expected)
        none = {key: one[:, :0] if "index" in key else one[:0] for key, one in given.items()}
        without_links = adapted(graph.x, **none)
        masked = _masked(adapted, graph.x, given)
    assert torch.allclose(masked, expected) == (name == UNLINKED), f"{name} ignores the mask"
    assert masked.shape == without_links.shape


DIRECTED = [name for name, of in NETWORKS.items() if hasattr(of.get(NodeShape), "one_way")]


@pytest.mark.parametrize("name", DIRECTED)
def test_networks_that_read_directions_take_each_link_once_or_both_ways(name: str) -> None:
    ways = torch.arange(_graph().links).remainder(2).mul(2).sub(1).to(torch.int8)
    graph = replace(_graph(), link_values=replace(_graph().link_values, directions=ways))
    network = NETWORKS[name][NodeShape](NodeShape(FEATURES, CLASSES, 2, directed=True)).eval()
    adapted, (given, _) = PyGNodeNetwork(network).eval(), _shuffled(graph)
    assert given["edge_index"].size(1) == graph.links
    turned = replace(graph, link_values=replace(graph.link_values, directions=-ways))
    with torch.no_grad():
        expected = network(graph)
        torch.testing.assert_close(adapted(graph.x, **given), expected)
        assert not torch.allclose(network(turned), expected), f"{name} ignores directions"
        if network.one_way:
            both = graph.both_ways
            given = {
                "edge_index": both.index,
                "edge_attr": graph.link_values[both.links].attributes,
            }
            given["edge_direction"] = both.values.directions
            torch.testing.assert_close(adapted(graph.x, **given), expected)
        masked = _masked(adapted, graph.x, given)
    assert not torch.allclose(masked, expected), f"{name} ignores the mask"


def _graph_networks() -> Iterator[tuple[str, nn.Module]]:
    shape = GraphShape(FEATURES, 8, CLASSES, link_width=2)
    for name, by_shape in NETWORKS.items():
        if GraphShape in by_shape and name not in ALIGNED:
            yield name, by_shape[GraphShape](shape)
    yield "fedstar", DualChannel(shape)
    yield "feddense", DenseDualChannel(shape)


def _batch() -> Batch:
    graph = _graph()
    block = block_with_values(
        torch.stack([graph.left, graph.right]).long(),
        graph.link_values,
        torch.tensor([0, NODES]),
        features=graph.features,
        feature_width=FEATURES,
        labels=torch.zeros(1, dtype=torch.int64),
    )
    block = block.with_structure(StructureEncoding(4, 4)(block))
    return block.cut(torch.tensor([0, 0]))


@pytest.mark.parametrize(("name", "network"), list(_graph_networks()))
def test_graph_networks_give_the_same_logits(name: str, network: nn.Module) -> None:
    batch, network = _batch(), network.eval()
    (given, _), adapted = _shuffled(batch), PyGGraphNetwork(network).eval()
    given |= {"batch": batch.batch, "structure": batch.structure}
    with torch.no_grad():
        expected = network(batch)
        torch.testing.assert_close(adapted(batch.x, **given), expected)
        masked = _masked(adapted, batch.x, given)
    assert torch.allclose(masked, expected) == (name == UNLINKED), f"{name} ignores the mask"


def test_gnn_explainer_finds_the_link_that_matters() -> None:
    """Node 0's class is the feature of node 1, which a SAGE with fixed weights reads."""
    network: Any = NETWORKS["sage"][NodeShape](NodeShape(2, 2))
    x = torch.zeros((4, 2))
    x[1, 0] = 1.0
    edge_index = torch.tensor([[0, 1, 0, 2, 0, 3], [1, 0, 2, 0, 3, 0]])
    with torch.no_grad():
        for layer in network.layers:
            for parameter in layer.parameters():
                parameter.zero_()
        network.layers[0].neighbours.weight[0, 0] = 10.0  # the mean of the neighbours' feature 0
        network.layers[1].own.weight[1, 0] = 10.0
    torch.manual_seed(0)
    explainer = Explainer(
        PyGNodeNetwork(network).eval(),
        GNNExplainer(epochs=100),
        explanation_type="model",
        node_mask_type="attributes",
        edge_mask_type="object",
        model_config=ModelConfig(
            mode="multiclass_classification", task_level="node", return_type="raw"
        ),
    )
    found = explainer(x, edge_index, index=0)
    assert found.prediction[0].argmax() == 1
    assert int(found.edge_mask.argmax()) == 1  # from node 1 to node 0


def test_a_network_of_pygs_layers_gets_the_edges_as_given() -> None:
    class Plain(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.layer = GCNConv(FEATURES, CLASSES)

        def forward(self, graph: NodeGraph) -> Tensor:
            logits: Tensor = self.layer(graph.x, graph.edge_index)
            return logits

    graph, network = _graph(), Plain().eval()
    edge_index = _shuffled(graph)[0]["edge_index"]
    adapted = PyGNodeNetwork(network)
    with torch.no_grad():
        torch.testing.assert_close(adapted(graph.x, edge_index), network(graph))
        mask = torch.zeros(edge_index.size(1))
        mask[3] = 1.0
        set_masks(adapted, mask, edge_index, apply_sigmoid=False)
        changed = (adapted(graph.x, edge_index) - network(graph)).abs().sum(dim=1)
    assert changed[edge_index[1, 4:]].max() > 0
