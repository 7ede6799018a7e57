"""Corruption of clients' graphs, to see how a method copes with poor data.

Test and validation labels stay as they are. Each client draws its own from the seed of the
split.
"""

from __future__ import annotations

from dataclasses import replace

import torch
from pydantic import NonNegativeFloat
from pydantic.dataclasses import dataclass
from torch import Generator, Tensor

from ramet.data import ClientData, NodeGraph, Split
from ramet.options import Share


@dataclass(frozen=True)
class Corruption:
    """How much of a client's graph is noisy or missing; by default nothing."""

    feature_noise: NonNegativeFloat = 0.0
    """Standard deviation of Gaussian noise, in units of the features' own standard deviation."""
    missing_features: Share = 0.0
    """Share of the features' values that are set to 0."""
    random_links: NonNegativeFloat = 0.0
    """Links between random nodes, as a share of the client's own."""
    missing_links: Share = 0.0
    """Share of the links that are removed."""
    wrong_labels: Share = 0.0
    """Share of the training labels that are replaced by another class."""
    missing_labels: Share = 0.0
    """Share of the training nodes that are left out of training."""

    def __bool__(self) -> bool:
        return self != NO_CORRUPTION

    def applied(
        self, held: ClientData[NodeGraph, Split], seed: int
    ) -> ClientData[NodeGraph, Split]:
        """The client's data corrupted in this way."""
        draw = torch.Generator().manual_seed(seed)
        graph, split = held.content, held.split
        graph = replace(graph, features=self._features(graph.features, draw))
        graph = self._links(graph, draw)
        graph = replace(graph, labels=self._labels(graph, split.train, draw))
        kept = split.train.numel() - int(self.missing_labels * split.train.numel())
        train = split.train[_drawn(split.train.numel(), max(kept, 1), draw)]
        return replace(held, content=graph, split=replace(split, train=train))

    def _features(self, features: Tensor, draw: Generator) -> Tensor:
        if self.feature_noise:
            spread = self.feature_noise * features.std()
            features = features + spread * torch.randn(features.shape, generator=draw)
        if self.missing_features:
            present = torch.rand(features.shape, generator=draw) >= self.missing_features
            features = features * present
        return features

    def _links(self, graph: NodeGraph, draw: Generator) -> NodeGraph:
        kept = _drawn(graph.links, graph.links - int(self.missing_links * graph.links), draw)
        count = int(self.random_links * graph.links)
        ends = torch.randint(graph.nodes, (2, count), generator=draw, dtype=torch.int32)
        left, right = ends[:, ends[0] != ends[1]].sort(dim=0).values
        return replace(
            graph,
            left=torch.cat([graph.left[kept], left]),
            right=torch.cat([graph.right[kept], right]),
            kinds=torch.cat([graph.kinds[kept], graph.kinds.new_zeros(left.numel())]),
            link_values=graph.link_values[kept].lengthened(left.numel()),
        )

    def _labels(self, graph: NodeGraph, train: Tensor, draw: Generator) -> Tensor:
        wrong = train[_drawn(train.numel(), int(self.wrong_labels * train.numel()), draw)]
        labels = graph.labels.clone()
        shifts = torch.randint(1, max(graph.classes, 2), (wrong.numel(),), generator=draw)
        labels[wrong] = (labels[wrong] + shifts) % graph.classes
        return labels


NO_CORRUPTION = Corruption()


def _drawn(total: int, count: int, draw: Generator) -> Tensor:
    """``count`` of ``total`` indices, in ascending order."""
    return torch.randperm(total, generator=draw)[:count].sort().values
