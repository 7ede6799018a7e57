"""Attention over the links of a flow, and the layer of graph attention networks."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data.graphs.copies import has_csr_products
from ramet.data.graphs.flow import Flow
from ramet.models.layers import Dropout, Linked, Rows, multiply

_SLOPE = 0.2


class GATLayer(nn.Module):
    r"""Graph attention with several heads, whose outputs are concatenated.

    .. math::
        \alpha_{uv} = \operatorname{softmax}_{v \in N_u \cup \{u\}} \operatorname{leaky\_relu}(
            a_s^\top W x_v + a_t^\top W x_u), \qquad
        x'_u = \sum_v \alpha_{uv} W x_v + b

    Args:
        out_width: of all heads together.
        dropout: rate at which attention weights are dropped.
    """

    def __init__(self, in_width: int, out_width: int, heads: int = 1, dropout: float = 0.0) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(out_width, in_width))
        self.of_source = nn.Parameter(torch.empty(heads, out_width // heads))
        self.of_target = nn.Parameter(torch.empty(heads, out_width // heads))
        for parameter in self.parameters():
            nn.init.xavier_uniform_(parameter)
        self.bias = nn.Parameter(torch.zeros(out_width))
        self.dropout = Dropout(dropout)

    def forward(self, values: Rows, links: Linked) -> Tensor:
        flow, shape = links.flow, self.of_source.shape
        mapped = multiply(values, self.weight).view(-1, *shape)  # [nodes, heads, width]
        by_source, by_target = ((mapped * a).sum(dim=2) for a in (self.of_source, self.of_target))
        scores = by_source.index_select(0, flow.sources) + by_target.index_select(0, flow.targets)
        weights = softmax(functional.leaky_relu(scores, _SLOPE), flow)  # [links, heads]
        return weighted_sums(self.dropout(weights), mapped, flow).flatten(1) + self.bias


def softmax(scores: Tensor, flow: Flow) -> Tensor:  # [links, heads]
    """Softmax over each node's incoming links."""
    largest = _largest(scores.detach(), flow)
    powers = (scores - largest.index_select(0, flow.targets)).exp()
    sums = torch.zeros_like(largest).index_add(0, flow.targets, powers)
    return powers / sums.index_select(0, flow.targets)


def _largest(scores: Tensor, flow: Flow) -> Tensor:  # [nodes, heads]
    if flow.sums is None and has_csr_products(scores):
        return torch.segment_reduce(scores, "max", offsets=flow.starts, unsafe=True)
    targets = flow.targets.unsqueeze(1).expand_as(scores)
    lowest = scores.new_full((flow.nodes, scores.size(1)), -torch.inf)
    return lowest.scatter_reduce(0, targets, scores, "amax")


def weighted_sums(weights: Tensor, values: Tensor, flow: Flow) -> Tensor:  # [nodes, heads, width]
    """For each attention head, the weighted sum over each node's incoming links."""
    if flow.sums is not None:
        return flow.sums(values, weights.unsqueeze(2))
    if not has_csr_products(values):
        return gathered_sums(weights, values, flow)
    sums: Tensor = _WeightedSums.apply(weights, values, flow)  # type: ignore[no-untyped-call]
    return sums


def gathered_sums(weights: Tensor, values: Tensor, flow: Flow) -> Tensor:
    """The same sums with a vector per link, which takes more memory and time on a CPU."""
    messages = weights.unsqueeze(2) * values.index_select(0, flow.sources)
    return torch.zeros_like(values).index_add(0, flow.targets, messages)


class _WeightedSums(torch.autograd.Function):
    """The heads are the blocks of a block-diagonal matrix, so there is one product for all."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, flow: Flow) -> Tensor:
        links, _ = flow.for_heads(weights.size(1))
        stacked = _stacked(values)
        ctx.save_for_backward(weights, stacked)
        ctx.flow = flow
        return _unstacked(links.filled(weights.T.reshape(-1)) @ stacked, weights.size(1))

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, Tensor, None]:
        weights, stacked = ctx.saved_tensors
        heads, grad = weights.size(1), _stacked(grad_outputs[0])
        links, reverse = ctx.flow.for_heads(heads)
        back = weights[ctx.flow.back_order].T.reshape(-1)
        values_grad = _unstacked(reverse.filled(back) @ grad, heads)
        mask = links.filled(weights.T.reshape(-1))
        weights_grad = torch.sparse.sampled_addmm(mask, grad, stacked.T, beta=0.0).values()
        return weights_grad.view(heads, -1).T.contiguous(), values_grad, None


def _stacked(values: Tensor) -> Tensor:  # [heads · nodes, width] from [nodes, heads, width]
    return values.transpose(0, 1).reshape(-1, values.size(2))


def _unstacked(rows: Tensor, heads: int) -> Tensor:  # [nodes, heads, width]
    return rows.view(heads, -1, rows.size(1)).transpose(0, 1).contiguous()
