"""Layers for batches of undirected graphs, written so that no product is done twice.

A link stands in both rows of the adjacency A, so A = Aᵀ: the backward pass uses the same matrix as
the forward pass and nothing is ever transposed. Linear maps go before the sum over neighbours,
(A + I)(x W) instead of ((A + I) x) W, as they never widen here.
"""

from __future__ import annotations

from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data import Batch
from ramet.data.graphs.node_graph import NodeGraph, SparseFeatures


class Linked(Protocol):
    """Undirected links between nodes, each in both rows."""

    @property
    def adjacency(self) -> Tensor: ...

    @property
    def rows(self) -> Tensor: ...

    @property
    def columns(self) -> Tensor: ...

    @property
    def degrees(self) -> Tensor: ...


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, links: Linked, own: bool) -> Tensor:
        ctx.links, ctx.own = links, own
        return _sums(values, links, own)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, None, None]:
        return _sums(grad_outputs[0].contiguous(), ctx.links, ctx.own), None, None


def _sums(values: Tensor, links: Linked, own: bool) -> Tensor:
    if values.device.type == "mps":  # has no CSR products
        base = values if own else torch.zeros_like(values)
        return base.index_add(0, links.rows, values[links.columns])
    return torch.addmm(values, links.adjacency, values, beta=int(own))


def self_and_neighbours(values: Tensor, links: Linked) -> Tensor:
    """(A + I) values: each node's row plus those of its neighbours."""
    result: Tensor = _Sums.apply(values, links, True)  # type: ignore[no-untyped-call]
    return result


def neighbours(values: Tensor, links: Linked) -> Tensor:
    """A values: the rows of each node's neighbours."""
    result: Tensor = _Sums.apply(values, links, False)  # type: ignore[no-untyped-call]
    return result


class _OfSparse(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, features: SparseFeatures) -> Tensor:
        ctx.features = features
        return features.by_node @ weight

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, None]:
        return ctx.features.by_feature @ grad_outputs[0].contiguous(), None


def of_features(linear: nn.Linear, graph: NodeGraph) -> Tensor:  # [nodes, width]
    """The linear map of a graph's features, without the products that are zero."""
    if graph.sparse_features is None:
        dense: Tensor = linear(graph.features)
        return dense
    return times_features(linear.weight, graph) + linear.bias


def times_features(weight: Tensor, graph: NodeGraph) -> Tensor:  # [nodes, width]
    features = graph.sparse_features
    if features is None:
        return graph.features @ weight.t()
    sparse: Tensor = _OfSparse.apply(weight.t(), features)  # type: ignore[no-untyped-call]
    return sparse


def graph_sums(values: Tensor, batch: Batch) -> Tensor:  # [graphs, width]
    """Add up the rows of each graph."""
    return values.new_zeros((batch.graphs, values.size(1))).index_add(0, batch.graph, values)


class InputLinear(nn.Linear):
    """A linear layer that takes a one-hot row as the index of its one."""

    def forward(self, features: Tensor) -> Tensor:
        if features.is_floating_point():
            return super().forward(features)
        return functional.embedding(features, self.weight.t()) + self.bias


class GINLayer(nn.Module):
    """Graph isomorphism layer, eps 0: MLP((A + I) x), the MLP being Linear, relu, Linear."""

    def __init__(self, wide: int, narrow: int) -> None:
        super().__init__()
        self.first = nn.Linear(wide, narrow)
        self.second = nn.Linear(narrow, narrow)

    def forward(self, values: Tensor, batch: Batch) -> Tensor:
        mapped = functional.linear(values, self.first.weight)
        summed: Tensor = self_and_neighbours(mapped, batch) + self.first.bias
        result: Tensor = self.second(summed.relu_())
        return result


class SAGELayer(nn.Module):
    """GraphSAGE's mean layer: W₁ · mean over neighbours + b + W₂ x; no neighbours, mean 0."""

    def __init__(self, wide: int, narrow: int) -> None:
        super().__init__()
        self.neighbours = nn.Linear(wide, narrow)
        self.own = nn.Linear(wide, narrow, bias=False)

    def forward(self, values: Tensor, links: Linked) -> Tensor:
        mapped = functional.linear(values, self.neighbours.weight)
        share = links.degrees.clamp(min=1).to(mapped.dtype).reciprocal().unsqueeze(1)
        mean = (self_and_neighbours(mapped, links) - mapped) * share
        result: Tensor = mean + self.neighbours.bias + self.own(values)
        return result


class GCNLayer(nn.Module):
    """Graph convolution, D^-½ (A + I) D^-½ x W + b with the degrees of A + I."""

    def __init__(self, wide: int, narrow: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(narrow, wide))
        self.bias = nn.Parameter(torch.zeros(narrow))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, values: Tensor, batch: Batch) -> Tensor:
        scaled = functional.linear(values, self.weight) * batch.gcn_scale
        return self_and_neighbours(scaled, batch) * batch.gcn_scale + self.bias


class Dropout(nn.Module):
    """Dropout whose coin flips are bytes of random words: a fifth of the usual time on a CPU.

    The chance is met to 1/256; other devices use PyTorch's own.
    """

    def __init__(self, chance: float) -> None:
        super().__init__()
        self.chance = chance

    def forward(self, values: Tensor) -> Tensor:
        if not self.training or self.chance == 0.0:
            return values
        if values.device.type != "cpu":
            return functional.dropout(values, self.chance)
        dropped = round(self.chance * 256)
        words = torch.empty((values.numel() + 7) // 8, dtype=torch.int64)
        words.random_(torch.iinfo(torch.int64).min, None)
        coins = words.view(torch.uint8)[: values.numel()].view(values.shape)
        return values * (coins >= dropped).to(values.dtype).mul_(256 / (256 - dropped))
