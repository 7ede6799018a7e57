r"""Simple-HGN: graph attention that uses the kind of each link.

Lv et al., *Are we really making much progress? Revisiting, benchmarking and refining heterogeneous
graph neural networks*, KDD 2021, as FedDA uses it (its eq. 2).

.. math::
    \hat\alpha_{uv} = \operatorname{softmax}_{v \in N_u} \sigma\big(
        a^\top [W h_u \Vert W h_v \Vert W_r r_{\psi(uv)}]\big), \qquad
    h'_u = \mathrm{ELU}\Big(\sum_v \hat\alpha_{uv} W h_v\Big)

Each node type has an input layer. Each kind of link has an embedding per layer and a vector in the
decoder. All of these are separate tensors, so each can be switched off separately.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data.graphs.hetero_graph import Flow, HeteroGraph, Links, NodeType
from ramet.models.layers import Dropout
from ramet.models.settings import HGNNetwork
from ramet.models.shape import LinkShape

_SLOPE = 0.01


def kinds_of(relations: tuple[str, ...]) -> list[str]:
    """The 2R + 1 kinds of links: each relation, its reverse, and self loops."""
    return [*relations, *(f"{name}-back" for name in relations), "loop"]


class _WeightedSums(torch.autograd.Function):
    """For each attention head, the weighted sum over each node's incoming links."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, flow: Flow) -> Tensor:
        ctx.save_for_backward(weights, values)
        ctx.flow = flow
        return _sums_by_head(flow.starts, flow.sources, weights, values)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, Tensor, None]:
        weights, values = ctx.saved_tensors
        flow, grad = ctx.flow, grad_outputs[0].contiguous()
        reverse_weights = weights[flow.back_order]
        values_grad = _sums_by_head(flow.back_starts, flow.back_targets, reverse_weights, grad)
        weights_grad = torch.empty_like(weights)
        for head, own in enumerate(weights.T.contiguous()):
            links = _csr(flow.starts, flow.sources, own)
            product = torch.sparse.sampled_addmm(links, grad[:, head], values[:, head].T, beta=0.0)
            weights_grad[:, head] = product.values()
        return weights_grad, values_grad, None


def _sums_by_head(starts: Tensor, columns: Tensor, weights: Tensor, values: Tensor) -> Tensor:
    sums = torch.empty_like(values)  # [nodes, heads, width]
    for head, own in enumerate(weights.T.contiguous()):
        torch.mm(_csr(starts, columns, own), values[:, head], out=sums[:, head])
    return sums


def _csr(starts: Tensor, columns: Tensor, values: Tensor) -> Tensor:
    nodes = starts.numel() - 1
    return torch.sparse_csr_tensor(starts, columns, values, (nodes, nodes), check_invariants=False)


class _Attention(nn.Module):
    """An attention layer.

    ``weight`` is W, ``kind_weight`` W_r, ``kinds`` holds the r; a is split into ``of_source``,
    ``of_target`` and ``of_kind``.
    """

    def __init__(
        self,
        in_width: int,
        out_width: int,
        heads: int,
        kind_width: int,
        kinds: list[str],
        residual: bool,
    ) -> None:
        super().__init__()
        self.heads, self.names = heads, kinds  # a ParameterDict has its own order
        self.weight = nn.Parameter(torch.empty(heads * out_width, in_width))
        self.kind_weight = nn.Parameter(torch.empty(heads * kind_width, kind_width))
        self.of_source = nn.Parameter(torch.empty(heads, out_width))
        self.of_target = nn.Parameter(torch.empty(heads, out_width))
        self.of_kind = nn.Parameter(torch.empty(heads, kind_width))
        for parameter in self.parameters():
            nn.init.xavier_normal_(parameter, gain=2**0.5)
        self.kinds = nn.ParameterDict({name: torch.randn(kind_width) for name in kinds})
        self.residual = nn.Linear(in_width, heads * out_width, bias=False) if residual else None

    def forward(self, values: Tensor, flow: Flow, dropout: Dropout) -> Tensor:
        mapped = (values @ self.weight.T).view(values.size(0), self.heads, -1)
        kinds = torch.stack([self.kinds[name] for name in self.names]) @ self.kind_weight.T
        by_kind = (kinds.view(-1, self.heads, self.of_kind.size(1)) * self.of_kind).sum(dim=2)
        by_source, by_target = (self._scores(values, a) for a in (self.of_source, self.of_target))
        scores = by_source.index_select(0, flow.sources)  # faster backward pass than indexing
        scores = scores + by_target.index_select(0, flow.targets)
        scores = scores + by_kind.index_select(0, flow.kinds)
        weights = _softmax(functional.leaky_relu(scores, _SLOPE), flow)  # [links, heads]
        summed: Tensor = _WeightedSums.apply(dropout(weights), mapped, flow)  # type: ignore[no-untyped-call]
        if self.residual is None:
            return summed
        own: Tensor = self.residual(values)
        return summed + own.view_as(summed)

    def _scores(self, values: Tensor, vectors: Tensor) -> Tensor:  # [nodes, heads]
        """aᵀ W h of every node and head, computed as (Wᵀ a)ᵀ h, which is a smaller product."""
        narrow = self.weight.view(self.heads, -1, self.weight.size(1)) * vectors.unsqueeze(2)
        return values @ narrow.sum(dim=1).T


def _softmax(scores: Tensor, flow: Flow) -> Tensor:
    """Softmax over each node's incoming links; every node has at least its self loop."""
    targets = flow.targets.unsqueeze(1).expand_as(scores)
    largest = torch.full((flow.nodes, scores.size(1)), -torch.inf, device=scores.device)
    largest = largest.scatter_reduce(0, targets, scores.detach(), "amax")
    powers = (scores - largest.index_select(0, flow.targets)).exp()
    sums = torch.zeros_like(largest).index_add(0, flow.targets, powers)
    return powers / sums.index_select(0, flow.targets)


class _Input(nn.Linear):
    """A node type's input layer. Nodes without features are one-hot: each has its own embedding."""

    def forward(self, nodes: NodeType) -> Tensor:  # type: ignore[override]
        if nodes.features is None:
            return self.weight.T + self.bias
        return functional.linear(nodes.features, self.weight, self.bias)


class SimpleHGN(nn.Module):
    """Scores pairs of nodes.

    A node's vector concatenates its input embedding and the output of every layer, averaged over
    the heads, each scaled to length 1. The score of a pair is the product of its two vectors,
    weighted by the relation's vector (``distmult``) or not (``dot``), and summed.

    Parameters: ``project.TYPE``, ``layers.N``, ``layers.N.kinds.KIND``, ``decode.KIND``.
    """

    def __init__(self, shape: LinkShape, settings: HGNNetwork = HGNNetwork()) -> None:  # noqa: B008
        super().__init__()
        hidden, heads, layers = settings.hidden, settings.heads, settings.layers
        self.relations = shape.relations
        kinds = kinds_of(shape.relations)
        self.project = nn.ModuleDict({name: _Input(width, hidden) for name, width in shape.types})
        widths = [hidden, *[hidden * heads] * layers]
        self.layers = nn.ModuleList(
            _Attention(width, hidden, heads, settings.kind_width, kinds, settings.residual)
            for width in widths
        )
        self.dropout = Dropout(settings.dropout)
        self.decode = nn.ParameterDict(
            {name: torch.ones(hidden * (layers + 2)) for name in kinds}
            if settings.decoder == "distmult"
            else {}
        )

    def encode(self, graph: HeteroGraph) -> Tensor:  # [nodes, hidden · (layers + 2)]
        h = torch.cat([self.project[kind.name](kind) for kind in graph.types])
        outputs = [functional.normalize(h)]
        for layer in self.layers:
            h = layer(self.dropout(h), graph.flow, self.dropout)
            if layer is not self.layers[-1]:
                h = functional.elu(h)
            outputs.append(functional.normalize(h.mean(dim=1)))
            h = h.flatten(1)
        return torch.cat(outputs, dim=1)

    def scores(self, nodes: Tensor, pairs: Links) -> Tensor:  # [pairs]
        products = nodes.index_select(0, pairs.heads) * nodes.index_select(0, pairs.tails)
        if not self.decode:
            return products.sum(dim=1)
        result = products.new_zeros(len(pairs))
        for kind, name in enumerate(self.relations):
            index = (pairs.kinds == kind).nonzero().flatten()
            if index.numel():  # without pairs, a relation's vector gets no gradient and stays fixed
                own = products.index_select(0, index) @ self.decode[name]
                result = result.index_add(0, index, own)
        return result

    def forward(self, graph: HeteroGraph, pairs: Links) -> Tensor:  # [pairs]
        return self.scores(self.encode(graph), pairs)
