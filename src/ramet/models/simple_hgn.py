r"""Simple-HGN: graph attention that knows the type of each link.

Lv et al., *Are we really making much progress? Revisiting, benchmarking and refining heterogeneous
graph neural networks*, KDD 2021, as FedDA uses it (its eq. 2).

.. math::
    \hat\alpha_{uv} = \operatorname{softmax}_{v \in N_u} \sigma\big(
        a^\top [W h_u \Vert W h_v \Vert W_r r_{\psi(uv)}]\big), \qquad
    h'_u = \mathrm{ELU}\Big(\sum_v \hat\alpha_{uv} W h_v\Big)

Each node type has an input layer, each kind of link an embedding per layer, and each kind a vector
in the decoder, all in tensors of their own: so each can be switched off alone.
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
    """2R + 1: each relation, each against its direction, and loops."""
    return [*relations, *(f"{name}-back" for name in relations), "loop"]


class _WeightedSums(torch.autograd.Function):
    """For each head, the sum of what comes in over the links, times the links' weights."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, values: Tensor, flow: Flow) -> Tensor:
        ctx.save_for_backward(weights, values)
        ctx.flow = flow
        return _each_head(flow.starts, flow.sources, weights, values)

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any) -> tuple[Tensor, Tensor, None]:
        weights, values = ctx.saved_tensors
        flow, given = ctx.flow, grad_outputs[0].contiguous()
        to_values = _each_head(flow.back_starts, flow.back_targets, weights[flow.back_order], given)
        to_weights = torch.empty_like(weights)
        for head, own in enumerate(weights.T.contiguous()):
            links = _matrix(flow.starts, flow.sources, own)
            found = torch.sparse.sampled_addmm(links, given[:, head], values[:, head].T, beta=0.0)
            to_weights[:, head] = found.values()
        return to_weights, to_values, None


def _each_head(starts: Tensor, columns: Tensor, weights: Tensor, values: Tensor) -> Tensor:
    sums = torch.empty_like(values)  # [nodes, heads, width]
    for head, own in enumerate(weights.T.contiguous()):
        torch.mm(_matrix(starts, columns, own), values[:, head], out=sums[:, head])
    return sums


def _matrix(starts: Tensor, columns: Tensor, values: Tensor) -> Tensor:
    nodes = starts.numel() - 1
    return torch.sparse_csr_tensor(starts, columns, values, (nodes, nodes), check_invariants=False)


class _Attention(nn.Module):
    """One layer: ``weight`` W, ``kind_weight`` W_r, and a in three parts; ``kinds`` holds the r."""

    def __init__(
        self, wide: int, narrow: int, heads: int, kind_width: int, kinds: list[str], residual: bool
    ) -> None:
        super().__init__()
        self.heads, self.names = heads, kinds  # a ParameterDict has an order of its own
        self.weight = nn.Parameter(torch.empty(heads * narrow, wide))
        self.kind_weight = nn.Parameter(torch.empty(heads * kind_width, kind_width))
        self.of_source = nn.Parameter(torch.empty(heads, narrow))
        self.of_target = nn.Parameter(torch.empty(heads, narrow))
        self.of_kind = nn.Parameter(torch.empty(heads, kind_width))
        for parameter in self.parameters():
            nn.init.xavier_normal_(parameter, gain=2**0.5)
        self.kinds = nn.ParameterDict({name: torch.randn(kind_width) for name in kinds})
        self.residual = nn.Linear(wide, heads * narrow, bias=False) if residual else None

    def forward(self, values: Tensor, flow: Flow, dropout: Dropout) -> Tensor:
        mapped = (values @ self.weight.T).view(values.size(0), self.heads, -1)
        kinds = torch.stack([self.kinds[name] for name in self.names]) @ self.kind_weight.T
        by_kind = (kinds.view(-1, self.heads, self.of_kind.size(1)) * self.of_kind).sum(dim=2)
        by_source, by_target = (self._shares(values, a) for a in (self.of_source, self.of_target))
        scores = by_source.index_select(0, flow.sources)  # its gradient is faster than that of []
        scores = scores + by_target.index_select(0, flow.targets)
        scores = scores + by_kind.index_select(0, flow.kinds)
        weights = _softmax(functional.leaky_relu(scores, _SLOPE), flow)  # [links, heads]
        summed: Tensor = _WeightedSums.apply(dropout(weights), mapped, flow)  # type: ignore[no-untyped-call]
        if self.residual is None:
            return summed
        own: Tensor = self.residual(values)
        return summed + own.view_as(summed)

    def _shares(self, values: Tensor, vectors: Tensor) -> Tensor:  # [nodes, heads]
        """aᵀ W h of every node and head, as (Wᵀ a)ᵀ h: one narrow product instead of a wide one."""
        narrow = self.weight.view(self.heads, -1, self.weight.size(1)) * vectors.unsqueeze(2)
        return values @ narrow.sum(dim=1).T


def _softmax(scores: Tensor, flow: Flow) -> Tensor:
    """Over the links that come in at each node; every node has its loop, so none is empty."""
    wide = flow.targets.unsqueeze(1).expand_as(scores)
    most = torch.full((flow.nodes, scores.size(1)), -torch.inf, device=scores.device)
    most = most.scatter_reduce(0, wide, scores.detach(), "amax")
    powers = (scores - most.index_select(0, flow.targets)).exp()
    sums = torch.zeros_like(most).index_add(0, flow.targets, powers)
    return powers / sums.index_select(0, flow.targets)


class _Input(nn.Linear):
    """A type's input layer; nodes without features are one-hot, so each has a row of its own."""

    def forward(self, nodes: NodeType) -> Tensor:  # type: ignore[override]
        if nodes.features is None:
            return self.weight.T + self.bias
        return functional.linear(nodes.features, self.weight, self.bias)


class SimpleHGN(nn.Module):
    """Scores of pairs of nodes.

    A node's vector is its input and every layer's output, each mean over the heads and scaled to
    length 1, side by side. Two vectors are multiplied, weighted by the relation's vector
    (``distmult``) or not (``dot``), and summed.

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
        found = [functional.normalize(h)]
        for layer in self.layers:
            h = layer(self.dropout(h), graph.flow, self.dropout)
            if layer is not self.layers[-1]:
                h = functional.elu(h)
            found.append(functional.normalize(h.mean(dim=1)))
            h = h.flatten(1)
        return torch.cat(found, dim=1)

    def scores(self, nodes: Tensor, pairs: Links) -> Tensor:  # [pairs]
        both = nodes.index_select(0, pairs.heads) * nodes.index_select(0, pairs.tails)
        if not self.decode:
            return both.sum(dim=1)
        result = both.new_zeros(len(pairs))
        for kind, name in enumerate(self.relations):
            asked = (pairs.kinds == kind).nonzero().flatten()
            if asked.numel():  # others get no gradient, so they do not move
                result = result.index_add(0, asked, both.index_select(0, asked) @ self.decode[name])
        return result

    def forward(self, graph: HeteroGraph, pairs: Links) -> Tensor:  # [pairs]
        return self.scores(self.encode(graph), pairs)
