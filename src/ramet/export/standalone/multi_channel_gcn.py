"""FedLIT's networks, which classify the nodes of a graph, in PyTorch and PyTorch Geometric.

``GCN`` passes messages over all links, ``MultiChannelGCN`` has a channel for each kind of link.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCNConv
from torch_geometric.utils import degree


class Channel(nn.Module):
    """A linear layer and graph convolutions, each with relu and dropout."""

    def __init__(self, hidden: int, layers: int, activate: bool, dropout: float) -> None:
        super().__init__()
        self.project = nn.Linear(hidden, hidden)
        self.layers = nn.ModuleList(
            GCNConv(hidden, hidden, normalize=False, add_self_loops=False) for _ in range(layers)
        )
        self.dropout = nn.Dropout(dropout)
        self.activate = activate

    def forward(self, x: Tensor, edge_index: Tensor, edge_weight: Tensor) -> Tensor:
        x = self.project(x)
        if self.activate:
            x = x.relu()
        for layer in self.layers:
            x = self.dropout(layer(x, edge_index, edge_weight).relu())
        return x


class GCN(nn.Module):
    """Two linear layers, graph convolutions over all links, and a linear layer.

    Args:
        features: width of the node features.
        classes: number of classes.
        hidden: width of all layers.
        layers: number of convolutions.
        activate: relu after the first two linear layers.
        loops: self loops in the convolutions.
        dropout: rate in training.
    """

    def __init__(
        self,
        features: int,
        classes: int,
        hidden: int,
        layers: int,
        activate: bool,
        loops: bool,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.project = nn.Linear(features, hidden)
        self.channel = Channel(hidden, layers, activate, dropout)
        self.classify = nn.Linear(hidden, classes)
        self.activate, self.loops = activate, loops

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the logits, [nodes, classes].

        ``edge_index`` has each link in both directions and no self loops.
        """
        scale = gcn_scale(edge_index, x.size(0))
        edge_weight = scale[edge_index[0]] * scale[edge_index[1]]
        if self.loops:
            edge_index = with_loops(edge_index, x.size(0))
            edge_weight = torch.cat([edge_weight, scale.square()])
        h = self.project(x)
        h = self.channel(h.relu() if self.activate else h, edge_index, edge_weight)
        logits: Tensor = self.classify(h)
        return logits


class MultiChannelGCN(nn.Module):
    """A GCN channel for each kind of link; a node sums over the channels that touch it.

    A node without links passes through all channels.

    Args:
        features: width of the node features.
        classes: number of classes.
        hidden: width of all layers.
        layers: number of convolutions in each channel.
        kinds: number of channels.
        cluster: find the kind of each link by its nearest centre; otherwise ``edge_type`` says it.
        view: compare links by a fixed random projection instead of the first layer.
        activate: relu after the linear layers.
        loops: self loops in the convolutions.
        mean: average over the channels that touch a node instead of summing.
        degrees: normalise by degrees in the whole ``graph`` or in the ``channel``.
        dropout: rate in training.
    """

    centres: Tensor
    projection: Tensor

    def __init__(
        self,
        features: int,
        classes: int,
        hidden: int,
        layers: int,
        kinds: int,
        cluster: bool,
        view: bool,
        activate: bool,
        loops: bool,
        mean: bool,
        degrees: str,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        self.project = nn.Linear(features, hidden)
        self.channels = nn.ModuleList(
            Channel(hidden, layers, activate, dropout) for _ in range(kinds)
        )
        self.classify = nn.Linear(hidden, classes)
        self.register_buffer("centres", torch.zeros(kinds, 2 * hidden))
        self.register_buffer("projection", torch.zeros(hidden, features) if view else None)
        self.cluster, self.activate, self.loops = cluster, activate, loops
        self.mean, self.degrees = mean, degrees

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor | None = None) -> Tensor:
        """Return the logits, [nodes, classes].

        ``edge_index`` has each link in both directions and no self loops. ``edge_type``, the kind
        of each column of ``edge_index``, is read only if the network does not cluster links.
        """
        nodes = x.size(0)
        h = self.project(x)
        h = h.relu() if self.activate else h
        if self.cluster:
            edge_type = self.link_kinds(x, h, edge_index)
        elif edge_type is None:
            raise ValueError("this network reads the kind of each link: give edge_type")
        isolated = degree(edge_index[1], nodes) == 0
        total, touching = torch.zeros_like(h), torch.zeros(nodes, 1)
        looped = with_loops(edge_index, nodes) if self.loops else edge_index
        for kind, channel in enumerate(self.channels):
            mask = (edge_type == kind).to(h.dtype)
            in_channel = torch.zeros(nodes).index_add(0, edge_index[1], mask)
            touched = ((in_channel > 0) | isolated).unsqueeze(1).to(h.dtype)
            if self.degrees == "graph":
                scale = gcn_scale(edge_index, nodes)
            else:
                scale = (in_channel + 1).rsqrt()
            edge_weight = scale[edge_index[0]] * scale[edge_index[1]] * mask
            if self.loops:
                edge_weight = torch.cat([edge_weight, scale.square()])
            total = total + channel(h, looped, edge_weight) * touched
            touching = touching + touched
        if self.mean:
            total = total / touching.clamp(min=1)
        logits: Tensor = self.classify(total)
        return logits

    def link_kinds(self, x: Tensor, h: Tensor, edge_index: Tensor) -> Tensor:  # [links]
        """The centre that is nearest to both ends of a link, by cosine; the smaller end first."""
        nodes = h if self.projection is None else (x @ self.projection.T).relu()
        left, right = edge_index.amin(dim=0), edge_index.amax(dim=0)
        unit = functional.normalize(self.centres)
        by_left, by_right = nodes @ unit[:, : nodes.size(1)].T, nodes @ unit[:, nodes.size(1) :].T
        by_left = by_left.masked_fill((self.centres == 0).all(dim=1), -torch.inf)
        return (by_left[left] + by_right[right]).argmax(dim=1)


def gcn_scale(edge_index: Tensor, nodes: int) -> Tensor:  # [nodes]
    """(degree + 1)^-½, the factor of GCN's symmetric norm with self loops."""
    scale: Tensor = (degree(edge_index[1], nodes) + 1).rsqrt()
    return scale


def with_loops(edge_index: Tensor, nodes: int) -> Tensor:
    loops = torch.arange(nodes, device=edge_index.device)
    return torch.cat([edge_index, torch.stack([loops, loops])], dim=1)
