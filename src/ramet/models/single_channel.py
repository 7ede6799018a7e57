"""Plain networks for graph classification."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data.graphs.graph_block import Batch
from ramet.models.attention import GATLayer
from ramet.models.layers import (
    Dropout,
    GCNLayer,
    GINLayer,
    InputLinear,
    SAGELayer,
    UnlinkedLayer,
    graph_sums,
)
from ramet.models.link_reading import Value
from ramet.models.settings import GraphAttentionNetwork, GraphNetwork
from ramet.models.shape import GraphShape


class SingleChannel(nn.Module):
    """Linear, layers of [message passing, activation, dropout], sum over nodes, two-layer head.

    Parameters: ``embed``, ``layers.0`` …, ``hidden``, ``classify``.
    """

    together: ClassVar[tuple[str, ...]] = ("hidden", "classify")
    reads: ClassVar[tuple[Value, ...]] = ()

    def __init__(
        self,
        shape: GraphShape,
        settings: GraphNetwork,
        layer: Callable[[int, int], nn.Module],
        activation: Callable[[Tensor], Tensor] = torch.relu,
    ) -> None:
        super().__init__()
        hidden, layers = settings.hidden, settings.layers
        self.embed = InputLinear(shape.features, hidden)
        self.layers = nn.ModuleList(layer(hidden, hidden) for _ in range(layers))
        self.hidden = nn.Linear(self.pooled_width(shape, hidden), hidden)
        self.classify = nn.Linear(hidden, shape.classes)
        self.dropout = Dropout(settings.dropout)
        self.activation = activation
        self.embedding_size = shape.classes, hidden

    def encode(self, batch: Batch) -> Tensor:  # [graphs, hidden]
        x = self.embed(batch.features)  # [nodes, hidden]
        links = batch.weighted if "weights" in self.reads else batch.whole
        for layer in self.layers:
            x = self.dropout.after(self.activation, layer(x, links))
        pooled: Tensor = self.hidden(self.pool(x, batch)).relu_()
        return pooled

    def pooled_width(self, shape: GraphShape, hidden: int) -> int:  # noqa: ARG002
        return hidden

    def pool(self, x: Tensor, batch: Batch) -> Tensor:  # [graphs, pooled width]
        return graph_sums(x, batch)

    def forward(self, batch: Batch) -> Tensor:  # [graphs, classes]
        logits: Tensor = self.classify(self.dropout(self.encode(batch)))
        return logits


class GraphMLP(SingleChannel):
    """Multilayer perceptron on each node's features, summed over the graph, without links."""

    def __init__(self, shape: GraphShape, settings: GraphNetwork = GraphNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, UnlinkedLayer)


class GIN(SingleChannel):
    """Graph isomorphism network."""

    def __init__(self, shape: GraphShape, settings: GraphNetwork = GraphNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, GINLayer)


class GraphGCN(SingleChannel):
    """Graph convolutional network, with weights of links if there are any."""

    reads = ("weights",)

    def __init__(self, shape: GraphShape, settings: GraphNetwork = GraphNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, GCNLayer)


class GraphSAGE(SingleChannel):
    """GraphSAGE with mean aggregation."""

    def __init__(self, shape: GraphShape, settings: GraphNetwork = GraphNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, SAGELayer)


class GraphGAT(SingleChannel):
    """Graph attention network."""

    def __init__(
        self,
        shape: GraphShape,
        settings: GraphAttentionNetwork = GraphAttentionNetwork(),  # noqa: B008
    ) -> None:
        layer = partial(GATLayer, heads=settings.heads, dropout=settings.dropout)
        super().__init__(shape, settings, layer, functional.elu)
