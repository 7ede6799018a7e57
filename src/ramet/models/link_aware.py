"""Networks of PyG's layers whose messages depend on the attributes or the direction of links."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data.graphs.graph_block import Batch
from ramet.data.graphs.link_values import HasEdges
from ramet.data.graphs.node_graph import NodeGraph
from ramet.models.layers import Dropout, InputLinear, graph_sums
from ramet.models.link_reading import LinkInput, Value
from ramet.models.settings import (
    GraphAttentionNetwork,
    GraphNetwork,
    NodeAttentionNetwork,
    NodeNetwork,
)
from ramet.models.shape import GraphShape, NodeShape


class _LinkAware(nn.Module):
    """Layers of messages that carry what their links have, after a linear map of the features.

    Parameters: ``embed``, ``embed_links`` in networks that read attributes, ``layers.0`` ….
    """

    reads: ClassVar[tuple[Value, ...]] = ("attributes", "direction")
    activation: Callable[[Tensor], Tensor] = staticmethod(torch.relu)

    def __init__(
        self,
        shape: GraphShape | NodeShape,
        settings: GraphNetwork | NodeNetwork,
        layer: Callable[[int, int], nn.Module],
        last: Callable[[int, int], nn.Module] | None,
    ) -> None:
        super().__init__()
        hidden = settings.hidden
        self.embed = InputLinear(shape.features, hidden)
        if "attributes" in self.reads:
            self.embed_links = LinkInput(shape, hidden)
        before = settings.layers - (last is not None)
        self.layers = nn.ModuleList(layer(hidden, hidden) for _ in range(before))
        if last is not None:
            self.layers.append(last(hidden, shape.classes))
        self.dropout = Dropout(settings.dropout)
        self.embedding_size = shape.classes, hidden

    @property
    def one_way(self) -> bool:
        """Whether messages also go against the direction of their link, and carry that they do."""
        return "attributes" in self.reads and self.embed_links.directed

    def links(self, graph: HasEdges) -> tuple[Tensor, ...]:
        """What a layer takes besides the nodes' rows."""
        if "attributes" in self.reads:
            return self.embed_links.read(graph)
        return (graph.edge_index,)


class _LinkAwareNode(_LinkAware):
    """A network for nodes, whose last layer gives the logits."""

    def __init__(
        self,
        shape: NodeShape,
        settings: NodeNetwork,
        layer: Callable[[int, int], nn.Module],
        last: Callable[[int, int], nn.Module] | None = None,
    ) -> None:
        super().__init__(shape, settings, layer, last or layer)

    def encode(self, graph: NodeGraph) -> Tensor:  # [nodes, hidden]
        return self._encoded(graph, self.links(graph))

    def _encoded(self, graph: NodeGraph, links: tuple[Tensor, ...]) -> Tensor:
        x: Tensor = self.embed(graph.features)
        for layer in self.layers[:-1]:
            x = self.dropout(self.activation(layer(x, *links)))
        return x

    def forward(self, graph: NodeGraph) -> Tensor:  # [nodes, classes]
        links = self.links(graph)
        logits: Tensor = self.layers[-1](self._encoded(graph, links), *links)
        return logits


class _LinkAwareGraph(_LinkAware):
    """A network for graphs: the sum over nodes, and a head of two layers.

    Further parameters: ``hidden``, ``classify``.
    """

    together: ClassVar[tuple[str, ...]] = ("hidden", "classify")

    def __init__(
        self, shape: GraphShape, settings: GraphNetwork, layer: Callable[[int, int], nn.Module]
    ) -> None:
        super().__init__(shape, settings, layer, None)
        self.hidden = nn.Linear(settings.hidden, settings.hidden)
        self.classify = nn.Linear(settings.hidden, shape.classes)

    def encode(self, batch: Batch) -> Tensor:  # [graphs, hidden]
        x, links = self.embed(batch.features), self.links(batch)
        for layer in self.layers:
            x = self.dropout(self.activation(layer(x, *links)))
        pooled: Tensor = self.hidden(graph_sums(x, batch)).relu()
        return pooled

    def forward(self, batch: Batch) -> Tensor:  # [graphs, classes]
        logits: Tensor = self.classify(self.dropout(self.encode(batch)))
        return logits


def _gine(in_width: int, out_width: int) -> nn.Module:
    """PyG's GINEConv with a learned eps."""
    from torch_geometric.nn import GINEConv  # takes a second to import

    inner = nn.Sequential(nn.Linear(in_width, in_width), nn.ReLU(), nn.Linear(in_width, out_width))
    layer: nn.Module = GINEConv(inner, train_eps=True)
    return layer


def _gatv2(in_width: int, out_width: int, heads: int = 1, dropout: float = 0.0) -> nn.Module:
    """PyG's GATv2Conv; ``out_width`` is that of all heads together."""
    from torch_geometric.nn import GATv2Conv

    layer: nn.Module = GATv2Conv(
        in_width, out_width // heads, heads, dropout=dropout, edge_dim=in_width
    )
    return layer


def _dir_sage(in_width: int, out_width: int) -> nn.Module:
    """PyG's DirGNNConv: a SAGEConv for incoming and one for outgoing messages."""
    from torch_geometric.nn import DirGNNConv, SAGEConv

    layer: nn.Module = DirGNNConv(SAGEConv(in_width, out_width, root_weight=False))
    return layer


class NodeGINE(_LinkAwareNode):
    """Graph isomorphism network with attributes of links."""

    def __init__(self, shape: NodeShape, settings: NodeNetwork = NodeNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, _gine)


class GraphGINE(_LinkAwareGraph):
    """Graph isomorphism network with attributes of links."""

    def __init__(self, shape: GraphShape, settings: GraphNetwork = GraphNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, _gine)


class NodeGATv2(_LinkAwareNode):
    """Graph attention network whose attention depends on attributes of links.

    The last layer has one head.
    """

    activation = staticmethod(functional.elu)

    def __init__(
        self,
        shape: NodeShape,
        settings: NodeAttentionNetwork = NodeAttentionNetwork(),  # noqa: B008
    ) -> None:
        last = partial(_gatv2, dropout=settings.dropout)
        super().__init__(shape, settings, partial(last, heads=settings.heads), last)


class GraphGATv2(_LinkAwareGraph):
    """Graph attention network whose attention depends on attributes of links."""

    activation = staticmethod(functional.elu)

    def __init__(
        self,
        shape: GraphShape,
        settings: GraphAttentionNetwork = GraphAttentionNetwork(),  # noqa: B008
    ) -> None:
        layer = partial(_gatv2, heads=settings.heads, dropout=settings.dropout)
        super().__init__(shape, settings, layer)


class NodeDirSAGE(_LinkAwareNode):
    """GraphSAGE with separate incoming and outgoing messages."""

    reads = ("direction",)

    def __init__(self, shape: NodeShape, settings: NodeNetwork = NodeNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, _dir_sage)


class GraphDirSAGE(_LinkAwareGraph):
    """GraphSAGE with separate incoming and outgoing messages."""

    reads = ("direction",)

    def __init__(self, shape: GraphShape, settings: GraphNetwork = GraphNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, _dir_sage)
