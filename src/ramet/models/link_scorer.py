"""What networks for link prediction have in common: an input per node type, and a decoder."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from typing import ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data.graphs.hetero_graph import HeteroGraph, Links, NodeType
from ramet.models.settings import Decoder
from ramet.models.shape import LinkShape


class LinkScorer(nn.Module, ABC):
    """Scores pairs of nodes by the product of their vectors.

    The product is weighted by the relation's vector (``distmult``) or not (``dot``), and summed.
    Parameters: ``project.TYPE`` and ``decode.RELATION``.
    """

    switchable: ClassVar[tuple[str, ...]] = ("project.*", "decode.*")
    """Patterns over the tensors of one type or relation, which FedDA switches off one by one."""
    relations: tuple[str, ...]
    project: nn.ModuleDict
    decode: nn.ParameterDict

    @abstractmethod
    def encode(self, graph: HeteroGraph) -> Tensor:
        """A vector for each node: [nodes, width]."""

    def projected(self, graph: HeteroGraph) -> Tensor:  # [nodes, hidden]
        return torch.cat([self.project[kind.name](kind) for kind in graph.types])

    def scores(self, nodes: Tensor, pairs: Links) -> Tensor:  # [pairs]
        products = nodes.index_select(0, pairs.heads) * nodes.index_select(0, pairs.tails)
        if not self.decode:
            return products.sum(dim=1)
        result = products.new_zeros(len(pairs))
        for kind, name in enumerate(self.relations):
            index = pairs.of_kind(kind)
            if index.numel():  # without pairs, a relation's vector gets no gradient and stays fixed
                own = products.index_select(0, index) @ self.decode[name]
                result = result.index_add(0, index, own)
        return result

    def scores_of_kind(self, nodes: Tensor, heads: Tensor, tails: Tensor, kind: int) -> Tensor:
        """[pairs] The same scores for pairs of one relation."""
        products = nodes[heads] * nodes[tails]
        return products @ self.decode[self.relations[kind]] if self.decode else products.sum(dim=1)

    def scores_of_all(self, nodes: Tensor, heads: Tensor, tails: Tensor, kind: int) -> Tensor:
        """[heads, tails] The same scores for all pairs of some heads and tails, by one product."""
        weighted = nodes[heads]
        if self.decode:
            weighted = weighted * self.decode[self.relations[kind]]
        return weighted @ nodes[tails].T

    def forward(self, graph: HeteroGraph, pairs: Links) -> Tensor:  # [pairs]
        return self.scores(self.encode(graph), pairs)


class _Input(nn.Linear):
    """A node type's input layer. Nodes without features are one-hot: each has its own embedding."""

    def forward(self, nodes: NodeType) -> Tensor:  # type: ignore[override]
        if nodes.features is None:
            return self.weight.T + self.bias
        return functional.linear(nodes.features, self.weight, self.bias)


def inputs_of_types(shape: LinkShape, hidden: int) -> nn.ModuleDict:
    return nn.ModuleDict({name: _Input(width, hidden) for name, width in shape.types})


def vectors_of_kinds(names: Iterable[str], width: int, decoder: Decoder) -> nn.ParameterDict:
    """A vector of ones for each kind of link; none if the decoder is ``dot``."""
    vectors = {name: torch.ones(width) for name in names} if decoder == "distmult" else {}
    return nn.ParameterDict(vectors)
