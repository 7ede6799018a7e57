"""Graphs whose hidden kinds of links are known, because they were planted.

Each node has a class and belongs to a group; its features show both, under noise. A kind of link
belongs to a group: its ends come from that group with probability ``bias`` (which makes the kind
visible in the features, and raises its attribute homophily), and they share their class with
probability ``homophily``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ramet.data.node_graph import NodeGraph


@dataclass(frozen=True)
class PlantedKind:
    links: int
    homophily: float
    bias: float


def planted(
    nodes: int,
    classes: int,
    kinds: Sequence[PlantedKind],
    features: int = 32,
    class_signal: float = 0.4,
    group_signal: float = 1.5,
    seed: int = 0,
) -> NodeGraph:
    """Draw a graph; the same arguments give the same graph."""
    draw = torch.Generator().manual_seed(seed)
    labels = torch.randint(classes, (nodes,), generator=draw)
    groups = torch.randint(len(kinds), (nodes,), generator=draw)
    class_means = torch.randn(classes, features, generator=draw)
    group_means = torch.randn(len(kinds), features, generator=draw)
    noise = torch.randn(nodes, features, generator=draw)
    buckets = _Buckets.of(labels, groups, classes, len(kinds))
    ends = [_ends(place, kind, buckets, draw) for place, kind in enumerate(kinds)]
    pairs = torch.cat(ends, dim=1)
    known = torch.repeat_interleave(
        torch.arange(len(kinds), dtype=torch.uint8),
        torch.tensor([pair.size(1) for pair in ends]),
    )
    return NodeGraph(
        features=class_signal * class_means[labels] + group_signal * group_means[groups] + noise,
        labels=labels,
        classes=classes,
        left=pairs.amin(dim=0).to(torch.int32),
        right=pairs.amax(dim=0).to(torch.int32),
        kinds=known,
        kind_names=tuple(f"kind {place}" for place in range(len(kinds))),
        trained=torch.zeros(nodes, dtype=torch.bool),
    )


@dataclass(frozen=True)
class _Buckets:
    """Nodes by class and group."""

    order: Tensor
    starts: Tensor  # [classes, groups]
    sizes: Tensor

    @staticmethod
    def of(labels: Tensor, groups: Tensor, classes: int, count: int) -> _Buckets:
        place = labels * count + groups
        sizes = torch.bincount(place, minlength=classes * count)
        starts = sizes.cumsum(0) - sizes
        shape = (classes, count)
        return _Buckets(torch.argsort(place, stable=True), starts.view(shape), sizes.view(shape))

    def draw(self, classes: Tensor, groups: Tensor, by: torch.Generator) -> Tensor:
        """A node of each class and group."""
        sizes = self.sizes[classes, groups]
        within = (torch.rand(classes.numel(), generator=by, dtype=torch.float64) * sizes).long()
        return self.order[self.starts[classes, groups] + within]


def _ends(group: int, kind: PlantedKind, buckets: _Buckets, draw: torch.Generator) -> Tensor:
    """[2, links] without self loops."""
    classes, groups = buckets.sizes.shape

    def of_group() -> Tensor:
        own = torch.rand(kind.links, generator=draw) < kind.bias
        other = torch.randint(groups, (kind.links,), generator=draw)
        return torch.where(own, group, other)

    one = torch.randint(classes, (kind.links,), generator=draw)
    alike = torch.rand(kind.links, generator=draw) < kind.homophily
    shift = torch.randint(1, max(classes, 2), (kind.links,), generator=draw)
    other = torch.where(alike, one, (one + shift) % classes)
    pairs = torch.stack(
        [buckets.draw(one, of_group(), draw), buckets.draw(other, of_group(), draw)]
    )
    return pairs[:, pairs[0] != pairs[1]]
