"""Networks that classify the nodes of a graph, in PyTorch and PyTorch Geometric."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv


class NodeNetwork(nn.Module):
    """Graph convolutions, with an activation and dropout after each except the last.

    Args:
        features: width of the node features.
        classes: number of classes.
        hidden: width of all layers except the last.
        layers: number of convolutions.
        convolution: ``gin``, ``gcn``, ``sage`` or ``gat``.
        heads: attention heads of ``gat``; its last layer has one.
        dropout: rate in training.
    """

    def __init__(
        self,
        features: int,
        classes: int,
        hidden: int,
        layers: int,
        convolution: str,
        heads: int = 1,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        widths = [features, *[hidden] * (layers - 1)]
        self.layers = nn.ModuleList(
            new_convolution(convolution, width, hidden, hidden, heads) for width in widths[:-1]
        )
        self.layers.append(new_convolution(convolution, widths[-1], classes, hidden, heads=1))
        self.dropout = nn.Dropout(dropout)
        self.loops = convolution in ("gcn", "gat")
        self.activation = functional.elu if convolution == "gat" else functional.relu

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the logits, [nodes, classes].

        ``edge_index`` has each link in both directions and no self loops.
        """
        if self.loops:
            edge_index = with_loops(edge_index, x.size(0))
        for layer in self.layers[:-1]:
            x = self.dropout(self.activation(layer(x, edge_index)))
        logits: Tensor = self.layers[-1](x, edge_index)
        return logits


class NodeSAGE(nn.Module):
    """GraphSAGE layers, each with an activation and dropout, then a linear layer.

    Args:
        features: width of the node features.
        classes: number of classes.
        hidden: width of all layers.
        layers: number of convolutions.
        dropout: rate in training.
    """

    def __init__(
        self, features: int, classes: int, hidden: int, layers: int, dropout: float = 0.5
    ) -> None:
        super().__init__()
        widths = [features, *[hidden] * (layers - 1)]
        self.layers = nn.ModuleList(SAGEConv(width, hidden) for width in widths)
        self.classify = nn.Linear(hidden, classes)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the logits, [nodes, classes]; ``edge_index`` has links in both directions."""
        for layer in self.layers:
            x = self.dropout(layer(x, edge_index).relu())
        logits: Tensor = self.classify(x)
        return logits


class NodeHops(nn.Module):
    """Linear layers over a node's features and their sums over neighbours, in rows of norm 1.

    Args:
        features: width of the node features.
        classes: number of classes.
        hidden: width of all layers except the last.
        layers: number of linear layers.
        hops: number of sums.
        dropout: rate in training.
    """

    def __init__(
        self,
        features: int,
        classes: int,
        hidden: int,
        layers: int,
        hops: int,
        dropout: float = 0.5,
    ) -> None:
        super().__init__()
        widths = [features * (hops + 1), *[hidden] * (layers - 1), classes]
        self.layers = nn.ModuleList(
            nn.Linear(width, widths[number]) for number, width in enumerate(widths[:-1], 1)
        )
        self.hops = hops
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the logits, [nodes, classes].

        ``edge_index`` has each pair of linked nodes once in both directions, and no self loops.
        """
        rows = [functional.normalize(x.double())]
        for _ in range(self.hops):
            sums = torch.zeros_like(rows[-1]).index_add(0, edge_index[1], rows[-1][edge_index[0]])
            rows.append(functional.normalize(sums))
        x = torch.cat(rows, dim=1).float()
        for layer in self.layers[:-1]:
            x = self.dropout(layer(x).relu())
        logits: Tensor = self.layers[-1](x)
        return logits


def new_convolution(name: str, inputs: int, outputs: int, inner: int, heads: int) -> Any:
    if name == "gin":
        return GINConv(
            nn.Sequential(nn.Linear(inputs, inner), nn.ReLU(), nn.Linear(inner, outputs))
        )
    if name == "gcn":
        return GCNConv(inputs, outputs, add_self_loops=False)
    if name == "sage":
        return SAGEConv(inputs, outputs)
    return GATConv(inputs, outputs // heads, heads, add_self_loops=False)


def with_loops(edge_index: Tensor, nodes: int) -> Tensor:
    loops = torch.arange(nodes, device=edge_index.device)
    return torch.cat([edge_index, torch.stack([loops, loops])], dim=1)
