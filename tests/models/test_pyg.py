"""Networks with PyG's signature give the same outputs, and explainers can mask their links."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch_geometric.explain import Explainer, GNNExplainer, ModelConfig
from torch_geometric.explain.algorithm.utils import clear_masks, set_masks
from torch_geometric.nn import GCNConv

from ramet.data import Batch, GraphBlock, NodeGraph, StructureEncoding
from ramet.models.dense_dual_channel import DenseDualChannel
from ramet.models.dual_channel import DualChannel
from ramet.models.multi_channel_gcn import MultiChannelGCN
from ramet.models.networks import ALIGNED, NETWORKS
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
    )


def _node_networks() -> Iterator[tuple[str, nn.Module]]:
    shape = NodeShape(FEATURES, CLASSES)
    for name, by_shape in NETWORKS.items():
        if NodeShape in by_shape:
            yield name, by_shape[NodeShape](shape)
    yield "fed-mgcn", MultiChannelGCN(shape)
    fedlit = MultiChannelGCN(shape, clustering=LinkClustering())
    torch.nn.init.normal_(fedlit.kinds.centres)
    yield "fedlit", fedlit
    yield "fedsage+", MendedSAGE(shape)


def _shuffled(graph: NodeGraph) -> tuple[Tensor, Tensor]:
    """The edges in another order, and the kind of each."""
    ends = torch.stack([graph.left, graph.right]).long()
    edges = torch.cat([ends, ends.flip(0)], dim=1)
    order = torch.randperm(edges.size(1), generator=torch.Generator().manual_seed(1))
    return edges[:, order], torch.cat([graph.kinds, graph.kinds])[order]


@pytest.mark.parametrize(("name", "network"), list(_node_networks()))
def test_node_networks_give_the_same_logits(name: str, network: nn.Module) -> None:
    graph, network = _graph(), network.eval()
    edge_index, edge_type = _shuffled(graph)
    adapted = PyGNodeNetwork(network).eval()
    with torch.no_grad():
        expected = network(graph)
        torch.testing.assert_close(adapted(graph.x, edge_index, edge_type), expected)
        without_links = adapted(graph.x, edge_index[:, :0], edge_type[:0])
        set_masks(adapted, torch.zeros(edge_index.size(1)), edge_index, apply_sigmoid=False)
        masked = adapted(graph.x, edge_index, edge_type)
        clear_masks(adapted)
    assert not torch.allclose(masked, expected), f"{name} ignores the mask"
    assert masked.shape == without_links.shape


def _graph_networks() -> Iterator[tuple[str, nn.Module]]:
    shape = GraphShape(FEATURES, 8, CLASSES)
    for name, by_shape in NETWORKS.items():
        if GraphShape in by_shape and name not in ALIGNED:
            yield name, by_shape[GraphShape](shape)
    yield "fedstar", DualChannel(shape)
    yield "feddense", DenseDualChannel(shape)


def _batch() -> Batch:
    graph = _graph()
    block = GraphBlock.from_links(
        rows=torch.cat([graph.left, graph.right]).long(),
        columns=torch.cat([graph.right, graph.left]).long(),
        node_starts=torch.tensor([0, NODES]),
        features=graph.features,
        feature_width=FEATURES,
        labels=torch.zeros(1, dtype=torch.int64),
        name="test",
    )
    block = block.with_structure(StructureEncoding(4, 4)(block))
    return block.cut(torch.tensor([0, 0]))


@pytest.mark.parametrize(("name", "network"), list(_graph_networks()))
def test_graph_networks_give_the_same_logits(name: str, network: nn.Module) -> None:
    batch, network = _batch(), network.eval()
    order = torch.randperm(batch.edge_index.size(1), generator=torch.Generator().manual_seed(1))
    edge_index, adapted = batch.edge_index[:, order], PyGGraphNetwork(network).eval()
    with torch.no_grad():
        expected = network(batch)
        given = batch.x, edge_index, batch.batch, batch.structure
        torch.testing.assert_close(adapted(*given), expected)
        set_masks(adapted, torch.zeros(edge_index.size(1)), edge_index, apply_sigmoid=False)
        assert not torch.allclose(adapted(*given), expected), f"{name} ignores the mask"
        clear_masks(adapted)


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
    edge_index, _ = _shuffled(graph)
    adapted = PyGNodeNetwork(network)
    with torch.no_grad():
        torch.testing.assert_close(adapted(graph.x, edge_index), network(graph))
        mask = torch.zeros(edge_index.size(1))
        mask[3] = 1.0
        set_masks(adapted, mask, edge_index, apply_sigmoid=False)
        changed = (adapted(graph.x, edge_index) - network(graph)).abs().sum(dim=1)
    assert changed[edge_index[1, 4:]].max() > 0
