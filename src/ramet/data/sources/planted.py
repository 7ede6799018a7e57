"""Generated graphs with hidden kinds of links that are known because they were planted.

Groups of nodes form a ring, and each kind of link joins the nodes of one group with those of the
next, so with three or more kinds every group has links of two kinds. Features are noisy and depend
on a node's class and group. With probability ``bias`` an end of a link is drawn from the group of
its kind, otherwise from any group. The higher the bias, the more the features reveal the kind.
``homophily`` is the probability that a link joins nodes of the same class. A network that treats
all links alike mixes kinds of high homophily with kinds of low homophily.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from ramet.data.graphs.node_graph import NodeGraph

_MIN_RING = 3


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
    """Generate a graph. The same arguments give the same graph.

    Nodes are numbered group by group, so the smaller ends of a kind's links are in the same group,
    apart from those that ``bias`` leaves to chance.
    """
    draw = torch.Generator().manual_seed(seed)
    ring = max(len(kinds), _MIN_RING)
    labels = torch.randint(classes, (nodes,), generator=draw)
    groups = torch.randint(ring, (nodes,), generator=draw).sort().values
    class_means = torch.randn(classes, features, generator=draw)
    group_means = torch.randn(ring, features, generator=draw)
    noise = torch.randn(nodes, features, generator=draw)
    buckets = _Buckets.of(labels, groups, classes, ring)
    ends = [_ends(number, kind, buckets, draw) for number, kind in enumerate(kinds)]
    pairs = torch.cat(ends, dim=1)
    kind_of_link = torch.repeat_interleave(
        torch.arange(len(kinds), dtype=torch.uint8),
        torch.tensor([pair.size(1) for pair in ends]),
    )
    return NodeGraph(
        features=class_signal * class_means[labels] + group_signal * group_means[groups] + noise,
        labels=labels,
        classes=classes,
        left=pairs.amin(dim=0).to(torch.int32),
        right=pairs.amax(dim=0).to(torch.int32),
        kinds=kind_of_link,
        kind_names=tuple(f"kind {number}" for number in range(len(kinds))),
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
        bucket = labels * count + groups
        sizes = torch.bincount(bucket, minlength=classes * count)
        starts = sizes.cumsum(0) - sizes
        shape = (classes, count)
        return _Buckets(torch.argsort(bucket, stable=True), starts.view(shape), sizes.view(shape))

    def draw(self, classes: Tensor, groups: Tensor, generator: torch.Generator) -> Tensor:
        """Draw a node for each pair of class and group."""
        sizes = self.sizes[classes, groups]
        within = (
            torch.rand(classes.numel(), generator=generator, dtype=torch.float64) * sizes
        ).long()
        return self.order[self.starts[classes, groups] + within]


def _ends(group: int, kind: PlantedKind, buckets: _Buckets, draw: torch.Generator) -> Tensor:
    """[2, links] without self loops."""
    classes, groups = buckets.sizes.shape

    def groups_near(group: int) -> Tensor:
        biased = torch.rand(kind.links, generator=draw) < kind.bias
        any_group = torch.randint(groups, (kind.links,), generator=draw)
        return torch.where(biased, group % groups, any_group)

    one = torch.randint(classes, (kind.links,), generator=draw)
    same = torch.rand(kind.links, generator=draw) < kind.homophily
    shift = torch.randint(1, max(classes, 2), (kind.links,), generator=draw)
    other = torch.where(same, one, (one + shift) % classes)
    pairs = torch.stack(
        [
            buckets.draw(one, groups_near(group), draw),
            buckets.draw(other, groups_near(group + 1), draw),
        ]
    )
    return pairs[:, pairs[0] != pairs[1]]
