"""A graph of generated nodes, and the generator of their features."""

from __future__ import annotations

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data.graphs.node_graph import NodeGraph
from ramet.models.shape import NodeShape

_WIDTHS = (64, 128, 256)


class FeatureGenerator(nn.Module):
    """Features of nodes, from noise and their classes.

    Parameters: ``embed``, ``layers.0`` …, ``draw``.
    """

    noise = 32
    """The number of random values for each node."""

    def __init__(self, shape: NodeShape) -> None:
        super().__init__()
        self.embed = nn.Embedding(shape.classes, shape.classes)
        widths = (self.noise + shape.classes, *_WIDTHS)
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairwise(widths))
        self.draw = nn.Linear(widths[-1], shape.features)

    def forward(self, noise: Tensor, labels: Tensor) -> Tensor:  # [nodes, features]
        x = torch.cat([self.embed(labels), noise], dim=1)
        for layer in self.layers:
            x = layer(x).tanh()
        features: Tensor = self.draw(x)
        return features


def nearest_graph(features: Tensor, labels: Tensor, neighbours: int) -> NodeGraph:
    """Nodes that are each linked to the others with the most similar features."""
    unit = functional.normalize(features.detach())
    similar = (unit @ unit.T).fill_diagonal_(-torch.inf)
    nearest = similar.topk(min(neighbours, len(labels) - 1), dim=1).indices
    chosen = torch.zeros_like(similar, dtype=torch.bool).scatter_(1, nearest, value=True)
    left, right = (chosen | chosen.T).triu(1).nonzero().T.to(torch.int32)
    return NodeGraph(
        features=features,
        labels=labels,
        classes=int(labels.max()) + 1,
        left=left,
        right=right,
        kinds=torch.zeros_like(left, dtype=torch.uint8),
        kind_names=("link",),
        trained=torch.zeros_like(labels, dtype=torch.bool),
    )
