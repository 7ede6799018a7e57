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

from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data.graphs.flow import Flow
from ramet.data.graphs.hetero_graph import HeteroGraph
from ramet.models.attention import softmax, weighted_sums
from ramet.models.layers import Dropout
from ramet.models.link_scorer import LinkScorer, inputs_of_types, vectors_of_kinds
from ramet.models.settings import HGNNetwork
from ramet.models.shape import LinkShape

_SLOPE = 0.01


def kinds_of(relations: tuple[str, ...]) -> list[str]:
    """The 2R + 1 kinds of links: each relation, its reverse, and self loops."""
    return [*relations, *(f"{name}-back" for name in relations), "loop"]


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

    def forward(self, values: Tensor, flow: Flow, link_kinds: Tensor, dropout: Dropout) -> Tensor:
        mapped = (values @ self.weight.T).view(values.size(0), self.heads, -1)
        kinds = torch.stack([self.kinds[name] for name in self.names]) @ self.kind_weight.T
        by_kind = (kinds.view(-1, self.heads, self.of_kind.size(1)) * self.of_kind).sum(dim=2)
        by_source, by_target = (self._scores(values, a) for a in (self.of_source, self.of_target))
        scores = by_source.index_select(0, flow.sources)  # faster backward pass than indexing
        scores = scores + by_target.index_select(0, flow.targets)
        scores = scores + by_kind.index_select(0, link_kinds)
        weights = softmax(functional.leaky_relu(scores, _SLOPE), flow)  # [links, heads]
        summed = weighted_sums(dropout(weights), mapped, flow)
        if self.residual is None:
            return summed
        own: Tensor = self.residual(values)
        return summed + own.view_as(summed)

    def _scores(self, values: Tensor, vectors: Tensor) -> Tensor:  # [nodes, heads]
        """aᵀ W h of every node and head, computed as (Wᵀ a)ᵀ h, which is a smaller product."""
        narrow = self.weight.view(self.heads, -1, self.weight.size(1)) * vectors.unsqueeze(2)
        return values @ narrow.sum(dim=1).T


class SimpleHGN(LinkScorer):
    """Simple-HGN: graph attention that uses the kind of each link.

    A node's vector concatenates its input embedding and the output of every layer, averaged over
    the heads, each scaled to length 1.

    Parameters: ``project.TYPE``, ``layers.N``, ``layers.N.kinds.KIND``, ``decode.KIND``.
    """

    switchable: ClassVar[tuple[str, ...]] = (*LinkScorer.switchable, "layers.*.kinds.*")

    def __init__(self, shape: LinkShape, settings: HGNNetwork = HGNNetwork()) -> None:  # noqa: B008
        super().__init__()
        hidden, heads, layers = settings.hidden, settings.heads, settings.layers
        self.relations = shape.relations
        kinds = kinds_of(shape.relations)
        self.project = inputs_of_types(shape, hidden)
        widths = [hidden, *[hidden * heads] * layers]
        self.layers = nn.ModuleList(
            _Attention(width, hidden, heads, settings.kind_width, kinds, settings.residual)
            for width in widths
        )
        self.dropout = Dropout(settings.dropout)
        self.decode = vectors_of_kinds(kinds, hidden * (layers + 2), settings.decoder)

    def encode(self, graph: HeteroGraph) -> Tensor:  # [nodes, hidden · (layers + 2)]
        h = self.projected(graph)
        outputs = [functional.normalize(h)]
        for layer in self.layers:
            h = layer(self.dropout(h), graph.flow, graph.flow_kinds, self.dropout)
            if layer is not self.layers[-1]:
                h = functional.elu(h)
            outputs.append(functional.normalize(h.mean(dim=1)))
            h = h.flatten(1)
        return torch.cat(outputs, dim=1)
