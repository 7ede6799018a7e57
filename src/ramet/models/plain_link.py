"""Plain networks for link prediction: message passing over all links, whatever their kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data.graphs.hetero_graph import HeteroGraph
from ramet.models.attention import GATLayer
from ramet.models.layers import Dropout, GCNLayer, GINLayer, SAGELayer, UnlinkedLayer
from ramet.models.link_scorer import LinkScorer, inputs_of_types, vectors_of_kinds
from ramet.models.settings import LinkAttentionNetwork, LinkNetwork
from ramet.models.shape import LinkShape


class _PlainLink(LinkScorer):
    """Inputs per node type, layers with an activation and dropout between them, and a decoder.

    Parameters: ``project.TYPE``, ``layers.0`` …, ``decode.RELATION``.
    """

    def __init__(
        self,
        shape: LinkShape,
        settings: LinkNetwork,
        layer: Callable[[int, int], nn.Module],
        activation: Callable[[Tensor], Tensor] = torch.relu,
    ) -> None:
        super().__init__()
        hidden = settings.hidden
        self.relations = shape.relations
        self.project = inputs_of_types(shape, hidden)
        self.layers = nn.ModuleList(layer(hidden, hidden) for _ in range(settings.layers))
        self.decode = vectors_of_kinds(shape.relations, hidden, settings.decoder)
        self.dropout = Dropout(settings.dropout)
        self.activation = activation

    def encode(self, graph: HeteroGraph) -> Tensor:  # [nodes, hidden]
        h = self.projected(graph)
        for layer in self.layers[:-1]:
            h = self.dropout.after(self.activation, layer(h, graph.whole))
        vectors: Tensor = self.layers[-1](h, graph.whole)
        return vectors


class LinkMLP(_PlainLink):
    """Multilayer perceptron on the features of both ends, without other links."""

    def __init__(self, shape: LinkShape, settings: LinkNetwork = LinkNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, UnlinkedLayer)


class LinkGIN(_PlainLink):
    """Graph isomorphism network over all links."""

    def __init__(self, shape: LinkShape, settings: LinkNetwork = LinkNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, GINLayer)


class LinkGCN(_PlainLink):
    """Graph convolutional network over all links."""

    def __init__(self, shape: LinkShape, settings: LinkNetwork = LinkNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, GCNLayer)


class LinkSAGE(_PlainLink):
    """GraphSAGE with mean aggregation over all links."""

    def __init__(self, shape: LinkShape, settings: LinkNetwork = LinkNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, SAGELayer)


class LinkGAT(_PlainLink):
    """Graph attention network over all links."""

    def __init__(
        self,
        shape: LinkShape,
        settings: LinkAttentionNetwork = LinkAttentionNetwork(),  # noqa: B008
    ) -> None:
        layer = partial(GATLayer, heads=settings.heads, dropout=settings.dropout)
        super().__init__(shape, settings, layer, functional.elu)
