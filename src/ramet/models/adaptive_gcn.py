"""AdaFGL's networks: a common GCN, and personal ones that read what it knows of a site's graph.

Similarities between all pairs of nodes are products of their class probabilities, so sums weighted
by them are taken class by class, and no matrix of all pairs is ever stored.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data.graphs.node_graph import NodeGraph
from ramet.models.layers import Dropout, multiply, self_and_neighbours
from ramet.models.plain_node import NodeGCN
from ramet.models.settings import NodeNetwork
from ramet.models.shape import NodeShape

_SMALLEST = 1e-12


@dataclass(frozen=True)
class Alike:
    """The similarities s of all pairs of different nodes: cosines of their class probabilities."""

    units: Tensor  # [nodes, classes] rows of norm 1

    @staticmethod
    def by(probabilities: Tensor) -> Alike:
        return Alike(functional.normalize(probabilities))

    def sums(self, values: Tensor, with_self: bool = False) -> Tensor:
        """S values: the sum over the other nodes' rows, weighted by similarity.

        With ``with_self`` it is (S + I) values.
        """
        all_nodes = self.units @ (self.units.T @ values)
        return all_nodes if with_self else all_nodes - values

    def mean(self) -> Tensor:
        """The mean over all pairs."""
        count = len(self.units)
        total = self.units.sum(dim=0).square().sum() - count
        return total / max(count * (count - 1), 1)


@dataclass(frozen=True)
class Propagation:
    """αA + (1-α)S, both with self loops and the symmetric norm."""

    graph: NodeGraph
    alike: Alike
    link_share: float

    def __call__(self, values: Tensor) -> Tensor:
        """The matrix times the values."""
        of_links, of_alike = self.graph.gcn_scale, self._alike_scale
        over_links = of_links * self_and_neighbours(of_links * values, self.graph.whole)
        over_alike = of_alike * self.alike.sums(of_alike * values, with_self=True)
        return self.link_share * over_links + (1 - self.link_share) * over_alike

    @cached_property
    def _alike_scale(self) -> Tensor:  # [nodes, 1]
        ones = self.alike.units.new_ones(len(self.alike.units), 1)
        return self.alike.sums(ones, with_self=True).rsqrt()


class HopsMLP(nn.Module):
    """Linear layers over a node's features and these features propagated over 1 to ``hops`` hops.

    Features are mapped before they are propagated, which gives the same and costs less.

    Parameters: ``layers.0`` …, ``activation``.
    """

    def __init__(self, shape: NodeShape, settings: NodeNetwork, hops: int) -> None:
        super().__init__()
        self.hops = hops
        widths = [shape.features * (hops + 1), *[settings.hidden] * (settings.layers - 1)]
        pairs = pairwise([*widths, shape.classes])
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairs)
        self.activation = nn.PReLU()
        self.dropout = Dropout(settings.dropout)

    def forward(self, propagation: Propagation) -> Tensor:  # [nodes, classes]
        first, *others = self.layers
        assert isinstance(first, nn.Linear)
        weights = first.weight.chunk(self.hops + 1, dim=1)
        nearer = [multiply(propagation.graph.compact_features, weight) for weight in weights]
        x = nearer.pop()
        while nearer:
            x = propagation(x) + nearer.pop()
        x = x + first.bias
        for layer in others:
            x = layer(self.dropout(self.activation(x)))
        return x


@dataclass(frozen=True)
class Parts:
    """[nodes, classes] what the personal networks say: logits, and ``known``, probabilities."""

    known: Tensor
    """The extractor's."""
    smoothed: Tensor
    """Of the homophilous branch."""
    others: tuple[Tensor, Tensor, Tensor]
    """Of the heterophilous branch: from features alone, from propagated ones, and from messages."""


class AdaptiveGCN(nn.Module):
    """A GCN, the extractor, and the two personal branches of AdaFGL.

    The extractor predicts until the buffer ``personal`` is true; from then on both branches do,
    weighted by the buffer ``confidence``.

    Parameters: ``extractor.layers.0`` …; ``smoothed``, ``features``, ``spread`` and ``sending``, of
    one network each; ``strength``.

    Args:
        hops: over how many hops features are propagated.
        link_share: the weight of links in the propagation; the rest is the similarities'.
        known_share: the weight of the extractor's similarities in messages; the rest is that of
            the similarities that are learned.
    """

    reads = NodeGCN.reads
    personal: Tensor
    confidence: Tensor

    def __init__(
        self,
        shape: NodeShape,
        settings: NodeNetwork = NodeNetwork(),  # noqa: B008
        hops: int = 3,
        link_share: float = 0.5,
        known_share: float = 0.2,
    ) -> None:
        super().__init__()
        self.link_share, self.known_share = link_share, known_share
        self.embedding_size = shape.classes, settings.hidden
        self.extractor = NodeGCN(shape, settings)
        self.smoothed = HopsMLP(shape, settings, hops)
        self.features = HopsMLP(shape, settings, 0)
        self.spread = HopsMLP(shape, settings, hops)
        self.sending = HopsMLP(shape, settings, hops)
        self.strength = nn.Parameter(torch.ones(()))
        self.register_buffer("personal", torch.tensor(False))
        self.register_buffer("confidence", torch.tensor(0.0))

    def encode(self, graph: NodeGraph) -> Tensor:  # [nodes, hidden]
        return self.extractor.encode(graph)

    def forward(self, graph: NodeGraph) -> Tensor:  # [nodes, classes]
        if not self.personal:
            logits: Tensor = self.extractor(graph)
            return logits
        return self.mixed(self.parts(graph)).clamp(min=_SMALLEST).log()

    def parts(self, graph: NodeGraph) -> Parts:
        """What the extractor and both branches say; only the branches have gradients."""
        known = self.known(graph)
        alike = Alike.by(known)
        propagation = Propagation(graph, alike, self.link_share)
        sent = self.sending(propagation)
        others = self.features(propagation), self.spread(propagation), self._messages(sent, alike)
        return Parts(known, self.smoothed(propagation), others)

    @torch.no_grad()
    def known(self, graph: NodeGraph) -> Tensor:  # [nodes, classes]
        """The class probabilities of the extractor, without dropout."""
        training = self.extractor.training
        logits: Tensor = self.extractor.eval()(graph)
        self.extractor.train(training)
        return logits.softmax(dim=1)

    def mixed(self, parts: Parts) -> Tensor:  # [nodes, classes]
        """The probabilities of both branches, weighted by confidence in homophily."""
        homophilous = (parts.smoothed.softmax(dim=1) + parts.known) / 2
        heterophilous = torch.stack([one.softmax(dim=1) for one in parts.others]).mean(dim=0)
        return torch.lerp(heterophilous, homophilous, self.confidence)

    def _messages(self, sent: Tensor, known: Alike) -> Tensor:  # [nodes, classes]
        learned = Alike.by(sent.softmax(dim=1))
        both = ((known, self.known_share), (learned, 1 - self.known_share))
        received = torch.stack([share * signed_mean(alike, sent) for alike, share in both])
        return sent + self.strength * received.sum(dim=0)


def signed_mean(alike: Alike, values: Tensor) -> Tensor:
    """The mean over the other nodes' rows, weighted by how much more alike they are than others.

    The weights s - mean(s) are positive for nodes that are more alike than the mean over all pairs,
    and negative for the rest.
    """
    others = values.sum(dim=0) - values
    return (alike.sums(values) - alike.mean() * others) / max(len(values) - 1, 1)
