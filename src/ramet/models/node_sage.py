"""GraphSAGE for node classification, on the graph as it is or mended with generated neighbours."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from ramet.data.graphs.node_graph import NodeGraph
from ramet.models.layers import Dropout, SAGELayer
from ramet.models.missing_neighbours import NeighbourGenerator
from ramet.models.settings import NodeNetwork
from ramet.models.shape import NodeShape


class NodeSAGE(nn.Module):
    """FedSage's GraphSAGE: layers with mean aggregation, then a linear layer.

    Parameters: ``layers.0`` …, ``classify``.
    """

    def __init__(self, shape: NodeShape, settings: NodeNetwork = NodeNetwork()) -> None:  # noqa: B008
        super().__init__()
        hidden, layers = settings.hidden, settings.layers
        widths = [shape.features, *[hidden] * (layers - 1)]
        self.layers = nn.ModuleList(SAGELayer(width, hidden) for width in widths)
        self.dropout = Dropout(settings.dropout)
        self.classify = nn.Linear(hidden, shape.classes)
        self.embedding_size = shape.classes, hidden

    def encode(self, graph: NodeGraph) -> Tensor:  # [nodes, hidden]
        x: Any = graph.compact_features
        for layer in self.layers:
            x = self.dropout.after(torch.relu, layer(x, graph.whole))
        encoded: Tensor = x
        return encoded

    def forward(self, graph: NodeGraph) -> Tensor:  # [nodes, classes]
        logits: Tensor = self.classify(self.encode(graph))
        return logits


class MendedSAGE(nn.Module):
    """A GraphSAGE that is trained on graphs mended with generated neighbours.

    The generator learns from hidden nodes (see :mod:`ramet.models.missing_neighbours`), not from
    the class loss: no gradient flows through generated nodes. Evaluation uses only the classifier,
    on the graph as it is.

    Parameters: ``generator.*``, ``classifier.*``.
    """

    def __init__(
        self,
        shape: NodeShape,
        settings: NodeNetwork = NodeNetwork(),  # noqa: B008
        most: int = 5,
        noise: float = 0.1,
    ) -> None:
        super().__init__()
        self.classifier = NodeSAGE(shape, settings)
        self.generator = NeighbourGenerator(shape, settings.hidden, most, noise)

    def forward(self, graph: NodeGraph) -> Tensor:  # [nodes, classes]
        logits: Tensor = self.classifier(self.generator.mended(graph) if self.training else graph)
        return logits[: graph.nodes]
