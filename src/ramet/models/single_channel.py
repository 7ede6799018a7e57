"""Single-channel networks for graph classification, used by Local, FedAvg and their variants."""

from __future__ import annotations

from torch import Tensor, nn

from ramet.data import Batch
from ramet.models.layers import Dropout, GINLayer, InputLinear, SAGELayer, graph_sums
from ramet.models.settings import GraphNetwork
from ramet.models.shape import GraphShape


class _SingleChannel(nn.Module):
    """Linear, layers of [message passing, relu, dropout], sum over nodes, two-layer head.

    Parameters: ``embed``, ``layers.0`` …, ``hidden``, ``classify``.
    """

    layer: type[GINLayer] | type[SAGELayer]

    def __init__(self, shape: GraphShape, settings: GraphNetwork = GraphNetwork()) -> None:  # noqa: B008
        super().__init__()
        hidden, layers = settings.hidden, settings.layers
        self.embed = InputLinear(shape.features, hidden)
        self.layers = nn.ModuleList(self.layer(hidden, hidden) for _ in range(layers))
        self.hidden = nn.Linear(hidden, hidden)
        self.classify = nn.Linear(hidden, shape.classes)
        self.dropout = Dropout(settings.dropout)

    def forward(self, batch: Batch) -> Tensor:  # [graphs, classes]
        x = self.embed(batch.features)  # [nodes, hidden]
        for layer in self.layers:
            x = self.dropout(layer(x, batch).relu_())
        pooled = self.hidden(graph_sums(x, batch)).relu_()  # [graphs, hidden]
        logits: Tensor = self.classify(self.dropout(pooled))
        return logits


class GIN(_SingleChannel):
    """Graph isomorphism network."""

    layer = GINLayer


class GraphSAGE(_SingleChannel):
    """GraphSAGE with mean aggregation."""

    layer = SAGELayer
