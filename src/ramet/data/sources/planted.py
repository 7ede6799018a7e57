"""Graphs whose hidden kinds of links are known, because they were planted.

Groups of nodes stand in a ring, and each kind of link joins the nodes of a group with those of the
next. So every node has links of two kinds. Features show a node's class and its group under noise;
a kind is visible in them as far as its links keep to their groups (``bias``), and its links join
nodes of one class with probability ``homophily``. A network that takes all links alike cannot tell
a neighbour who speaks for its own class from one who speaks against it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ramet.data.graphs.node_graph import NodeGraph

_SMALLEST_RING = 3


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
    group_signal: float = 2.5,
    seed: int = 0,
) -> NodeGraph:
    """Draw a graph; the same arguments give the same graph.

    Nodes are numbered group by group, so that a link's smaller end tells its direction in the ring.
    """
    draw = torch.Generator().manual_seed(seed)
    ring = max(len(kinds), _SMALLEST_RING)
    labels = torch.randint(classes, (nodes,), generator=draw)
    groups = torch.randint(ring, (nodes,), generator=draw).sort().values
    class_means = torch.randn(classes, features, generator=draw)
    group_means = torch.randn(ring, features, generator=draw)
    noise = torch.randn(nodes, features, generator=draw)
    buckets = _Buckets.of(labels, groups, classes, ring)
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

    def near(group: int) -> Tensor:
        own = torch.rand(kind.links, generator=draw) < kind.bias
        other = torch.randint(groups, (kind.links,), generator=draw)
        return torch.where(own, group % groups, other)

    one = torch.randint(classes, (kind.links,), generator=draw)
    alike = torch.rand(kind.links, generator=draw) < kind.homophily
    shift = torch.randint(1, max(classes, 2), (kind.links,), generator=draw)
    other = torch.where(alike, one, (one + shift) % classes)
    pairs = torch.stack(
        [buckets.draw(one, near(group), draw), buckets.draw(other, near(group + 1), draw)]
    )
    return pairs[:, pairs[0] != pairs[1]]
