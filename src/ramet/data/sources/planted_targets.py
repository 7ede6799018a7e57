"""Generated numbers, labels and classes of edges that follow from features and links.

A node's number is 40 plus 12 times its neighbours' mean of the first feature. Its labels say
whether that mean, and its second feature, are above 0. A graph's are those of its nodes' means. An
edge has class 1 if the first feature of its source is above that of its target.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

import torch
from torch import Tensor

if TYPE_CHECKING:
    from torch_geometric.data import Data

TargetTaskName: TypeAlias = Literal[
    "graph-regression",
    "graph-multilabel",
    "node-regression",
    "node-multilabel",
    "edge-classification",
]
_GRAPHS, _GRAPH_SIZE, _NODES, _EDGES = 40, 8, 60, 240


def planted_targets(task: TargetTaskName, client: int) -> Data | list[Data]:
    """A client's PyG objects, as they are given to `ramet.run`."""
    draw = torch.Generator().manual_seed(2026 + client)
    if task == "edge-classification":
        return _edges(draw)
    is_number = task.endswith("regression")
    if task.startswith("node"):
        return _nodes(draw, is_number)
    return [_graph(draw, is_number) for _ in range(_GRAPHS)]


def _nodes(draw: torch.Generator, is_number: bool) -> Data:
    x, links = torch.randn(_NODES, 2, generator=draw), _ring(_NODES, 2)
    own = torch.randn(links.size(1) // 2, 1, generator=draw).repeat(2, 1)
    near = torch.zeros(_NODES).index_add(0, links[1], x[links[0], 0]) / 4
    return _data(x, links, own, _target(torch.stack([near, x[:, 1]], dim=1), is_number))


def _graph(draw: torch.Generator, is_number: bool) -> Data:
    x = torch.randn(_GRAPH_SIZE, 2, generator=draw) + torch.randn(1, 2, generator=draw)
    own = torch.randn(_GRAPH_SIZE, 1, generator=draw).repeat(2, 1)
    return _data(x, _ring(_GRAPH_SIZE, 1), own, _target(x.mean(dim=0, keepdim=True), is_number))


def _edges(draw: torch.Generator) -> Data:
    x = torch.randn(_NODES, 2, generator=draw)
    source = torch.randint(_NODES, (_EDGES,), generator=draw)
    target = (source + torch.randint(1, _NODES, (_EDGES,), generator=draw)) % _NODES
    own = torch.randn(_EDGES, 1, generator=draw)
    classes = (x[source, 0] > x[target, 0]).long()
    return _data(x, torch.stack([source, target]), own, classes)


def _target(values: Tensor, is_number: bool) -> Tensor:  # [samples, 1] or [samples, 2]
    return 40 + 12 * values[:, :1] if is_number else (values > 0).float()


def _ring(nodes: int, steps: int) -> Tensor:  # [2, 2 · steps · nodes]
    """Links of each node to the next ones, in both directions."""
    node = torch.arange(nodes).repeat(steps)
    step = torch.arange(1, steps + 1).repeat_interleave(nodes)
    links = torch.stack([node, (node + step) % nodes])
    return torch.cat([links, links.flip(0)], dim=1)


def _data(x: Tensor, edge_index: Tensor, edge_attr: Tensor, y: Tensor) -> Data:
    from torch_geometric.data import Data  # takes seconds to import

    return Data(x=x, edge_index=edge_index, edge_attr=edge_attr, y=y)
