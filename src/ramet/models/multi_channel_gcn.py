r"""FedLIT's networks for node classification: one channel, or a channel for each kind of link.

.. math::
    h_u = \sigma(W_s x_u), \quad h^c_u = \sigma(W_c h_u), \quad
    h^{c,\ell+1}_u = \sigma\Big(\sum_{v \sim_c u} \Theta^c_\ell h^{c,\ell}_v / \alpha_{uv}\Big),
    \quad \hat y_u = \operatorname{softmax} W_t \sum_{c \ni u} h^c_u
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ramet.data.graphs.channel import Channel, scale
from ramet.data.graphs.node_graph import NodeGraph
from ramet.models.layers import (
    Dropout,
    apply_linear,
    multiply,
    neighbours,
    self_and_neighbours,
)
from ramet.models.link_kinds import assign, means, seeded
from ramet.models.settings import GCNNetwork, LinkClustering, MultiChannelNetwork
from ramet.models.shape import NodeShape


class _Convolution(nn.Module):
    """D^-½ A D^-½ x W + b, with A + I for A if ``loops``; D always counts the self loop."""

    def __init__(self, in_width: int, out_width: int, loops: bool) -> None:
        super().__init__()
        self.sums = self_and_neighbours if loops else neighbours
        self.linear = nn.Linear(in_width, out_width)
        nn.init.xavier_uniform_(self.linear.weight)
        nn.init.zeros_(self.linear.bias)

    def forward(self, values: Tensor, channel: Channel, factor: Tensor) -> Tensor:
        scaled = (values @ self.linear.weight.T) * factor
        return self.sums(scaled, channel) * factor + self.linear.bias


class _Channel(nn.Module):
    """A projection, then layers of [graph convolution, relu, dropout]."""

    def __init__(self, settings: GCNNetwork) -> None:
        super().__init__()
        hidden = settings.hidden
        self.project = nn.Linear(hidden, hidden)
        self.layers = nn.ModuleList(
            _Convolution(hidden, hidden, settings.loops) for _ in range(settings.layers)
        )
        self.dropout = Dropout(settings.dropout)
        self.activate = settings.activate

    def forward(self, nodes: Tensor, channel: Channel, factor: Tensor) -> Tensor:
        x: Tensor = self.project(nodes)
        if self.activate:
            x = x.relu()
        for layer in self.layers:
            x = self.dropout.after(torch.relu, layer(x, channel, factor))
        return x


class GCN(nn.Module):
    """FedLIT's GCN over all links: two projections, convolutions, and a linear layer.

    Parameters: ``project``, ``channel.project``, ``channel.layers.0`` …, ``classify``.
    """

    def __init__(self, shape: NodeShape, settings: GCNNetwork = GCNNetwork()) -> None:  # noqa: B008
        super().__init__()
        self.project = nn.Linear(shape.features, settings.hidden)
        self.channel = _Channel(settings)
        self.classify = nn.Linear(settings.hidden, shape.classes)
        self.activate = settings.activate
        self.embedding_size = shape.classes, settings.hidden

    def encode(self, graph: NodeGraph) -> Tensor:  # [nodes, hidden]
        h = apply_linear(self.project, graph)
        nodes: Tensor = self.channel(h.relu() if self.activate else h, graph.whole, graph.gcn_scale)
        return nodes

    def forward(self, graph: NodeGraph) -> Tensor:  # [nodes, classes]
        logits: Tensor = self.classify(self.encode(graph))
        return logits


class Kinds(nn.Module):
    """The centre of each kind and the number of nodes that it touches.

    These are buffers, so they are sent and saved like parameters.
    """

    centres: Tensor
    nodes: Tensor

    def __init__(self, count: int, width: int) -> None:
        super().__init__()
        self.register_buffer("centres", torch.zeros(count, width))
        self.register_buffer("nodes", torch.zeros(count))


class MultiChannelGCN(nn.Module):
    """A GCN channel for each kind of link; a node sums over the channels that touch it.

    The kinds are the graph's true ones (mGCN), or found by clustering the links in every training
    pass (cGCN). A node without links passes through all channels.

    Args:
        clustering: how to find the kinds; None uses the true ones.

    Parameters: ``project``, ``channels.0`` …, ``classify``; buffers ``kinds.centres`` and
    ``kinds.nodes``.
    """

    view: Tensor | None

    def __init__(
        self,
        shape: NodeShape,
        settings: MultiChannelNetwork = MultiChannelNetwork(),  # noqa: B008
        clustering: LinkClustering | None = None,
    ) -> None:
        super().__init__()
        hidden = settings.hidden
        self.cluster = clustering is not None
        self.smallest = clustering.smallest if clustering else 0
        self.steps = clustering.steps if clustering else 1
        self.mean, self.activate, self.degrees = settings.mean, settings.activate, settings.degrees
        self.project = nn.Linear(shape.features, hidden)
        self.channels = nn.ModuleList(_Channel(settings) for _ in range(settings.kinds))
        self.classify = nn.Linear(hidden, shape.classes)
        self.kinds = Kinds(settings.kinds, 2 * hidden)
        if clustering and clustering.view == "fixed":
            view = torch.randn(hidden, shape.features, generator=torch.Generator().manual_seed(0))
            self.register_buffer("view", view / shape.features**0.5, persistent=False)
        else:
            self.view = None

    def forward(self, graph: NodeGraph) -> Tensor:  # [nodes, classes]
        h = self._projected(graph)
        kinds = self.kinds_of(graph, self._clustering_view(graph, h.detach()))
        isolated = graph.degrees == 0
        total, touching = torch.zeros_like(h), torch.zeros_like(graph.gcn_scale)
        links_of_kinds = graph.channels(kinds, len(self.channels))
        for kind, (channel, links) in enumerate(zip(self.channels, links_of_kinds, strict=True)):
            touched = ((links.degrees > 0) | isolated).unsqueeze(1).to(h.dtype)
            if self.training:
                self._record(kind, links.degrees)
            factor = graph.gcn_scale if self.degrees == "graph" else scale(links.degrees)
            total = total + channel(h, links, factor) * touched
            touching = touching + touched
        if self.mean:
            total = total / touching.clamp(min=1)
        logits: Tensor = self.classify(total)
        return logits

    def link_kinds(self, graph: NodeGraph) -> Tensor:  # [links]
        """The kind that the model assigns to each link."""
        return self.kinds_of(graph, self._clustering_view(graph, self._projected(graph)))

    def _clustering_view(self, graph: NodeGraph, projected: Tensor) -> Tensor:
        return (
            projected if self.view is None else multiply(graph.compact_features, self.view).relu()
        )

    def _projected(self, graph: NodeGraph) -> Tensor:
        h = apply_linear(self.project, graph)
        return h.relu() if self.activate else h

    @torch.no_grad()
    def kinds_of(self, graph: NodeGraph, nodes: Tensor) -> Tensor:  # [links]
        """The true kinds, or the nearest centres. Training also updates the centres."""
        if not self.cluster:
            return graph.kinds
        ends = graph.left, graph.right
        if not self.training:
            return assign(nodes, *ends, self.kinds.centres)
        centres = seeded(nodes, *ends, self.kinds.centres)
        for _ in range(self.steps):
            kinds = assign(nodes, *ends, centres)
            centres = means(nodes, *ends, kinds, centres)
        self.kinds.centres.copy_(centres)
        return kinds

    def _record(self, kind: int, degrees: Tensor) -> None:
        """Set the node count of a kind; clear count and centre if it has too few links."""
        links = int(degrees.sum()) // 2
        reported = links >= max(self.smallest, 1)
        self.kinds.nodes[kind] = (degrees > 0).sum() if reported else 0
        if not reported and links:
            self.kinds.centres[kind] = 0
