"""Sums over neighbours of nodes whose links lead to several sites."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ramet.data.graphs.node_graph import NodeGraph
from ramet.data.graphs.outside import Outside


def outside_of(graph: NodeGraph, parts: Sequence[Tensor]) -> list[Outside] | None:
    """What each part of a graph knows of the others; None unless each node is in one part."""
    nodes = torch.cat([*parts])
    if nodes.numel() != graph.nodes or torch.unique(nodes).numel() != graph.nodes:
        return None
    owner, index, row = (torch.empty(graph.nodes, dtype=torch.int64) for _ in range(3))
    for number, part in enumerate(parts):
        owner[part], index[part] = number, torch.arange(part.numel())
    left, right = graph.left.long(), graph.right.long()
    cut = owner[left] != owner[right]
    ends = torch.stack([torch.cat([left[cut], right[cut]]), torch.cat([right[cut], left[cut]])])
    border = torch.unique(ends)
    row[border] = torch.arange(border.numel())

    def known(number: int) -> Outside:
        mine, (here, there) = border[owner[border] == number], ends[:, owner[ends[0]] == number]
        return Outside(border.numel(), index[mine], row[mine], index[here], row[there])

    return [known(number) for number in range(len(parts))]


def sums_for_others(graph: NodeGraph, values: Tensor) -> Tensor:
    """[rows, width] for each node with links between sites, the sum over its neighbours here.

    Added up over all sites, these are the sums over all its neighbours.
    """
    outside = graph.outside
    assert outside is not None
    sums = values.new_zeros(outside.rows, values.size(1))
    sums.index_add_(0, outside.right, values[outside.left])
    return sums.index_add_(0, outside.row, near(graph, values)[outside.nodes])


def sums_of_all(graph: NodeGraph, values: Tensor, total: Tensor) -> Tensor:
    """[nodes, width] for each node here, the sum over its neighbours at all sites."""
    outside = graph.outside
    assert outside is not None
    return near(graph, values).index_copy(0, outside.nodes, total[outside.row])


def near(graph: NodeGraph, values: Tensor) -> Tensor:
    """[nodes, width] the sum over each node's neighbours in the graph."""
    links = graph.whole
    return torch.zeros_like(values).index_add_(0, links.rows, values[links.columns])
