"""Networks with PyG's signature, ``forward(x, edge_index, …)``, for tools such as its explainers.

Networks take a whole graph, which holds what training computes once. Here the graph is built in
every call, and messages pass through PyG's ``MessagePassing``, so that explainers can mask links.
"""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from ramet.data import Batch, NodeGraph
from ramet.data.graphs.channel import by_row
from ramet.data.graphs.flow import offsets


class _Messages(MessagePassing):  # type: ignore[misc]
    """Sums of neighbours' rows, each times the weight of its link."""

    def __init__(self) -> None:
        super().__init__(aggr="add", node_dim=0)

    def forward(self, edge_index: Tensor, order: Tensor, values: Tensor, weights: Tensor) -> Tensor:
        """``order``: the position of each edge's weight."""
        sums: Tensor = self.propagate(edge_index, x=values, weights=weights[order])
        return sums

    def message(self, x_j: Tensor, weights: Tensor) -> Tensor:
        return x_j * weights


class PyGNodeNetwork(nn.Module):
    """A network for node classification with PyG's signature.

    ``edge_index`` has each link in both directions and no self loops. ``edge_type`` is the kind of
    each edge, for networks that read the true kinds.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.messages: nn.Module = _Messages()

    def forward(
        self, x: Tensor, edge_index: Tensor, edge_type: Tensor | None = None
    ) -> Tensor:  # [nodes, classes]
        nodes = x.size(0)
        once = edge_index[0] < edge_index[1]
        left, right = edge_index[:, once].to(torch.int32)
        kinds = torch.zeros_like(left) if edge_type is None else edge_type[once]
        graph = NodeGraph(
            features=x,
            labels=x.new_zeros(nodes, dtype=torch.int64),
            classes=0,
            left=left,
            right=right,
            kinds=kinds.to(torch.uint8),
            kind_names=(),
            trained=x.new_zeros(nodes, dtype=torch.bool),
            sums=partial(self.messages, edge_index, _positions(edge_index, left, right, nodes)),
        )
        graph.__dict__["edge_index"] = edge_index  # for networks of PyG's layers
        logits: Tensor = self.network(graph)
        return logits


def _positions(edge_index: Tensor, left: Tensor, right: Tensor, nodes: int) -> Tensor:  # [edges]
    """The position of each edge among the links in CSR format."""
    starts, columns, _ = by_row(left, right, nodes)
    keys = torch.repeat_interleave(starts.diff()) * nodes + columns
    ascending = keys.argsort()
    return ascending[torch.searchsorted(keys[ascending], edge_index[1] * nodes + edge_index[0])]


class PyGGraphNetwork(nn.Module):
    """A network for graph classification with PyG's signature.

    ``edge_index`` has each link in both directions and no self loops; ``batch`` is the graph of
    each node, and ``structure`` its structure encoding, for networks that read one.
    """

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.messages: nn.Module = _Messages()

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        structure: Tensor | None = None,
    ) -> Tensor:  # [graphs, classes]
        graph = x.new_zeros(x.size(0), dtype=torch.int64) if batch is None else batch
        order = edge_index[1].argsort(stable=True)
        position = torch.empty_like(order)
        position[order] = torch.arange(order.numel(), device=order.device)
        given = Batch(
            features=x,
            structure=x.new_zeros((x.size(0), 0)) if structure is None else structure,
            row_starts=offsets(edge_index[1], x.size(0)).to(torch.int32),
            columns=edge_index[0][order].to(torch.int32),
            graph=graph,
            labels=graph.new_zeros(int(graph.max()) + 1 if graph.numel() else 0),
            feature_width=x.size(1),
            sums=partial(self.messages, edge_index, position),
        )
        given.__dict__["edge_index"] = edge_index
        logits: Tensor = self.network(given)
        return logits
