"""Plain networks for node classification: message-passing layers and nothing else."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data.graphs.node_graph import NodeGraph
from ramet.models.attention import GATLayer
from ramet.models.layers import (
    Dropout,
    GCNLayer,
    GINLayer,
    Linked,
    MaskedGCNLayer,
    SAGELayer,
    UnlinkedLayer,
)
from ramet.models.link_reading import Value
from ramet.models.settings import NodeAttentionNetwork, NodeNetwork
from ramet.models.shape import NodeShape


class _PlainNode(nn.Module):
    """Layers of message passing, with an activation and dropout after each except the last.

    Parameters: ``layers.0`` …
    """

    reads: ClassVar[tuple[Value, ...]] = ()

    def __init__(
        self,
        shape: NodeShape,
        settings: NodeNetwork,
        layer: Callable[[int, int], nn.Module],
        last: Callable[[int, int], nn.Module] | None = None,
        activation: Callable[[Tensor], Tensor] = torch.relu_,
    ) -> None:
        super().__init__()
        widths = [shape.features, *[settings.hidden] * (settings.layers - 1)]
        self.layers = nn.ModuleList(layer(*pair) for pair in pairwise(widths))
        self.layers.append((last or layer)(widths[-1], shape.classes))
        self.dropout = Dropout(settings.dropout)
        self.activation = activation
        self.embedding_size = shape.classes, widths[-1]

    def encode(self, graph: NodeGraph) -> Tensor:  # [nodes, hidden]
        if len(self.layers) == 1:
            return graph.features
        first, *others = self.layers[:-1]
        links = self._links(graph)
        x: Tensor = self.activation(first(graph.compact_features, links))
        for layer in others:
            x = self.activation(layer(self.dropout(x), links))
        return x

    def forward(self, graph: NodeGraph) -> Tensor:  # [nodes, classes]
        encoded = self.encode(graph)
        x = self.dropout(encoded) if len(self.layers) > 1 else encoded
        logits: Tensor = self.layers[-1](x, self._links(graph))
        return logits

    def _links(self, graph: NodeGraph) -> Linked:
        return graph.weighted if "weights" in self.reads else graph.whole


class NodeMLP(_PlainNode):
    """Multilayer perceptron on a node's own features, without links."""

    def __init__(self, shape: NodeShape, settings: NodeNetwork = NodeNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, UnlinkedLayer)


class NodeGIN(_PlainNode):
    """Graph isomorphism network."""

    def __init__(self, shape: NodeShape, settings: NodeNetwork = NodeNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, partial(GINLayer, inner=settings.hidden))


class NodeGCN(_PlainNode):
    """Graph convolutional network with self loops and the symmetric norm of the weights."""

    reads: ClassVar[tuple[Value, ...]] = ("weights",)

    def __init__(self, shape: NodeShape, settings: NodeNetwork = NodeNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, GCNLayer)


class MaskedNodeGCN(_PlainNode):
    """Graph convolutional network with a mask over each layer's weights."""

    def __init__(
        self,
        shape: NodeShape,
        settings: NodeNetwork = NodeNetwork(),  # noqa: B008
        threshold: float = 0.0,
    ) -> None:
        super().__init__(shape, settings, partial(MaskedGCNLayer, threshold=threshold))
        self.features = shape.features


class PlainNodeSAGE(_PlainNode):
    """GraphSAGE with mean aggregation."""

    def __init__(self, shape: NodeShape, settings: NodeNetwork = NodeNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, SAGELayer)


class NodeGAT(_PlainNode):
    """Graph attention network whose last layer has one head."""

    def __init__(
        self,
        shape: NodeShape,
        settings: NodeAttentionNetwork = NodeAttentionNetwork(),  # noqa: B008
    ) -> None:
        last = partial(GATLayer, dropout=settings.dropout)
        super().__init__(shape, settings, partial(last, heads=settings.heads), last, functional.elu)
