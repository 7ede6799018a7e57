"""Layers for undirected graphs.

The adjacency A has every link in both directions, so A = Aᵀ: the backward pass uses the same matrix
as the forward pass, and nothing is transposed. Linear maps are applied before the sum over
neighbours, (A + I)(x W) instead of ((A + I) x) W, because the output of a layer is seldom wider
than its input. What a layer has just computed is changed in place, so that less memory is written.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data.graphs.channel import Channel, GivenLinks
from ramet.data.graphs.copies import has_csr_products
from ramet.data.graphs.graph_block import Batch
from ramet.data.graphs.node_graph import NodeGraph, SparseFeatures

Rows: TypeAlias = Tensor | SparseFeatures
"""A row per node: what a layer takes as input."""
Linked: TypeAlias = Channel | GivenLinks
"""Undirected links between nodes, each in both directions."""


class _NeighbourSum(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, links: Channel, with_self: bool) -> Tensor:
        ctx.links, ctx.with_self = links, with_self
        return _neighbour_sum(values, links, with_self)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, None, None]:
        return _neighbour_sum(grad_outputs[0].contiguous(), ctx.links, ctx.with_self), None, None


def _neighbour_sum(values: Tensor, links: Channel, with_self: bool) -> Tensor:
    if not has_csr_products(values):
        base = values if with_self else torch.zeros_like(values)
        return base.index_add(0, links.rows, values[links.columns])
    return torch.addmm(values, links.adjacency, values, beta=int(with_self))


def self_and_neighbours(values: Tensor, links: Linked) -> Tensor:
    """(A + I) values: the sum of each node's row and its neighbours' rows."""
    if isinstance(links, GivenLinks):
        return values + links.sums(values)
    result: Tensor = _NeighbourSum.apply(values, links, True)  # type: ignore[no-untyped-call]
    return result


def neighbours(values: Tensor, links: Linked) -> Tensor:
    """A values: the sum of each node's neighbours' rows."""
    if isinstance(links, GivenLinks):
        return links.sums(values)
    result: Tensor = _NeighbourSum.apply(values, links, False)  # type: ignore[no-untyped-call]
    return result


class _SparseMatmul(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, weight: Tensor, features: SparseFeatures) -> Tensor:
        ctx.features = features
        return features.by_node @ weight

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, None]:
        return ctx.features.by_feature @ grad_outputs[0].contiguous(), None


def multiply(rows: Rows, weight: Tensor) -> Tensor:  # [nodes, width]
    """Multiply each row by Wᵀ, as a sparse product if the rows are sparse."""
    if isinstance(rows, Tensor):
        return functional.linear(rows, weight)
    sparse: Tensor = _SparseMatmul.apply(weight.t(), rows)  # type: ignore[no-untyped-call]
    return sparse


def apply_linear(linear: nn.Linear, graph: NodeGraph) -> Tensor:  # [nodes, width]
    """Apply a linear layer to a graph's features, as a sparse product if most are zero."""
    if graph.sparse_features is None:
        dense: Tensor = linear(graph.features)
        return dense
    return multiply(graph.sparse_features, linear.weight) + linear.bias


def graph_sums(values: Tensor, batch: Batch) -> Tensor:  # [graphs, width]
    """Sum the rows of each graph's nodes."""
    return values.new_zeros((batch.graphs, values.size(1))).index_add(0, batch.graph, values)


class InputLinear(nn.Linear):
    """A linear layer that also accepts one-hot rows given as indices."""

    def forward(self, features: Tensor) -> Tensor:
        if features.is_floating_point():
            return super().forward(features)
        table = self.weight.t().contiguous()  # rows are looked up faster than columns
        return functional.embedding(features, table).add_(self.bias)


class GINLayer(nn.Module):
    """Graph isomorphism layer with eps 0: MLP((A + I) x), where the MLP is Linear, relu, Linear.

    ``inner`` is the width between the two linear maps; it equals ``out_width`` if left out.
    """

    def __init__(self, in_width: int, out_width: int, inner: int | None = None) -> None:
        super().__init__()
        self.first = nn.Linear(in_width, inner or out_width)
        self.second = nn.Linear(inner or out_width, out_width)

    def forward(self, values: Rows, links: Linked) -> Tensor:
        mapped = multiply(values, self.first.weight)
        summed = self_and_neighbours(mapped, links).add_(self.first.bias)
        result: Tensor = self.second(summed.relu_())
        return result


class UnlinkedLayer(nn.Module):
    """Linear: W x + b, whatever a node is linked to."""

    def __init__(self, in_width: int, out_width: int) -> None:
        super().__init__()
        self.own = nn.Linear(in_width, out_width)

    def forward(self, values: Rows, links: Linked) -> Tensor:  # noqa: ARG002
        return multiply(values, self.own.weight) + self.own.bias


class SAGELayer(nn.Module):
    """GraphSAGE's mean layer: W₁ · mean over neighbours + b + W₂ x. No neighbours, mean 0."""

    def __init__(self, in_width: int, out_width: int) -> None:
        super().__init__()
        self.neighbours = nn.Linear(in_width, out_width)
        self.own = nn.Linear(in_width, out_width, bias=False)

    def forward(self, values: Rows, links: Linked) -> Tensor:
        mapped = multiply(values, self.neighbours.weight)
        mean = self_and_neighbours(mapped, links).sub_(mapped).mul_(links.mean_scale)
        return mean.add_(self.neighbours.bias).add_(multiply(values, self.own.weight))


class GCNLayer(nn.Module):
    """Graph convolution: D^-½ (A + I) D^-½ x W + b, where D has the degrees of A + I."""

    def __init__(self, in_width: int, out_width: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_width, in_width))
        self.bias = nn.Parameter(torch.zeros(out_width))
        nn.init.xavier_uniform_(self.weight)

    def forward(self, values: Rows, links: Linked) -> Tensor:
        scaled = multiply(values, self.used_weight()).mul_(links.gcn_scale)
        return self_and_neighbours(scaled, links).mul_(links.gcn_scale).add_(self.bias)

    def used_weight(self) -> Tensor:
        return self.weight


class MaskedGCNLayer(GCNLayer):
    """Graph convolution whose weights are multiplied by a mask of trained values.

    Values of the mask below ``threshold`` count as 0 in evaluation.
    """

    def __init__(self, in_width: int, out_width: int, threshold: float) -> None:
        super().__init__(in_width, out_width)
        self.mask = nn.Parameter(torch.ones_like(self.weight))
        self.threshold = threshold

    def used_weight(self) -> Tensor:
        if self.training:
            return self.weight * self.mask
        return self.weight * self.mask * (self.mask.abs() >= self.threshold)


class Dropout(nn.Module):
    """Dropout that uses one random byte per value, which is faster on a CPU.

    The rate is rounded to a multiple of 1/256. Other devices use PyTorch's dropout.
    """

    def __init__(self, rate: float) -> None:
        super().__init__()
        self.rate = rate

    def forward(self, values: Tensor) -> Tensor:
        if not self._drops:
            return values
        if values.device.type != "cpu":
            return functional.dropout(values, self.rate)
        return values * self._factors(values)

    def after(self, activation: Callable[[Tensor], Tensor], values: Tensor) -> Tensor:
        """Dropout of an activation; after relu with fewer passes over memory than one by one."""
        result: Tensor
        if activation is torch.relu and self._drops and values.device.type == "cpu":
            factors = self._factors(values)
            result = _DroppedRelu.apply(values, factors, self._scale)  # type: ignore[no-untyped-call]
        else:
            result = self(activation(values))
        return result

    @property
    def _drops(self) -> bool:
        return self.training and self.rate > 0.0

    @property
    def _dropped(self) -> int:
        return round(self.rate * 256)

    @property
    def _scale(self) -> float:
        return 256 / (256 - self._dropped)

    def _factors(self, values: Tensor) -> Tensor:
        """What each value is multiplied by: 0 or the scale."""
        words = torch.empty((values.numel() + 7) // 8, dtype=torch.int64)
        words.random_(torch.iinfo(torch.int64).min, None)
        drawn = words.view(torch.uint8)[: values.numel()].view(values.shape)
        return drawn.ge_(self._dropped).to(values.dtype).mul_(self._scale)


class _DroppedRelu(torch.autograd.Function):
    """The result is positive exactly where a value has a gradient, so nothing else is kept."""

    @staticmethod
    def forward(ctx: Any, values: Tensor, factors: Tensor, scale: float) -> Tensor:
        result = factors.mul_(values).relu_()
        ctx.save_for_backward(result)
        ctx.scale = scale
        return result

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, None, None]:
        (result,) = ctx.saved_tensors
        gradient: Tensor = torch.ops.aten.threshold_backward(grad_outputs[0], result, 0)
        return gradient.mul_(ctx.scale), None, None
