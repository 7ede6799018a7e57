"""A random graph on which networks can be compared without anyone's data."""

from __future__ import annotations

from functools import lru_cache

import torch

from ramet.data.graphs.node_graph import NodeGraph

_COMMUNITIES, _SIZE, _LINKED = 5, 100, 0.1


@lru_cache(maxsize=4)
def random_graph(features: int) -> NodeGraph:
    """Communities of random links; nodes of different communities are not linked."""
    draw = torch.Generator().manual_seed(0)
    nodes = _COMMUNITIES * _SIZE
    pairs = torch.triu_indices(nodes, nodes, offset=1)
    inside = pairs[0] // _SIZE == pairs[1] // _SIZE
    linked = inside & (torch.rand(pairs.size(1), generator=draw) < _LINKED)
    left, right = pairs[:, linked].to(torch.int32)
    return NodeGraph(
        features=torch.randn(nodes, features, generator=draw),
        labels=torch.zeros(nodes, dtype=torch.int64),
        classes=1,
        left=left,
        right=right,
        kinds=torch.zeros(left.numel(), dtype=torch.uint8),
        kind_names=("link",),
        trained=torch.zeros(nodes, dtype=torch.bool),
    )
