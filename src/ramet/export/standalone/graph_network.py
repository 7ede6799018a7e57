"""A network that classifies graphs, in PyTorch and PyTorch Geometric."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv, GCNConv, GINConv, SAGEConv, global_add_pool


class GraphNetwork(nn.Module):
    """A linear layer, graph convolutions, the sum over each graph's nodes, and two linear layers.

    Args:
        features: width of the node features.
        classes: number of classes.
        hidden: width of all layers.
        layers: number of convolutions.
        convolution: ``gin``, ``gcn``, ``sage`` or ``gat``.
        heads: attention heads of ``gat``.
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
        self.embed = nn.Linear(features, hidden)
        self.layers = nn.ModuleList(
            new_convolution(convolution, hidden, hidden, heads) for _ in range(layers)
        )
        self.hidden = nn.Linear(hidden, hidden)
        self.classify = nn.Linear(hidden, classes)
        self.dropout = nn.Dropout(dropout)
        self.loops = convolution in ("gcn", "gat")
        self.activation = functional.elu if convolution == "gat" else functional.relu

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor) -> Tensor:
        """Return the logits, [graphs, classes].

        ``edge_index`` has each link in both directions and no self loops; ``batch`` is the graph of
        each node, as in PyG's ``Batch``.
        """
        if self.loops:
            edge_index = with_loops(edge_index, x.size(0))
        x = self.embed(x)
        for layer in self.layers:
            x = self.dropout(self.activation(layer(x, edge_index)))
        graphs = batch.max().item() + 1
        pooled = self.hidden(global_add_pool(x, batch, graphs)).relu()
        logits: Tensor = self.classify(self.dropout(pooled))
        return logits


def new_convolution(name: str, inputs: int, outputs: int, heads: int) -> Any:
    if name == "gin":
        return GINConv(
            nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs))
        )
    if name == "gcn":
        return GCNConv(inputs, outputs, add_self_loops=False)
    if name == "sage":
        return SAGEConv(inputs, outputs)
    return GATConv(inputs, outputs // heads, heads, add_self_loops=False)


def with_loops(edge_index: Tensor, nodes: int) -> Tensor:
    loops = torch.arange(nodes, device=edge_index.device)
    return torch.cat([edge_index, torch.stack([loops, loops])], dim=1)
