"""Networks that predict links between nodes of several types, in PyTorch and PyTorch Geometric."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GATConv, GCNConv, GINConv, MessagePassing, SAGEConv
from torch_geometric.utils import softmax

EdgeType = tuple[str, str, str]
"""Type of the source, name of the relation, type of the target, as in PyG's ``HeteroData``."""


class _LinkNetwork(nn.Module, ABC):
    """An input layer for each node type, an encoder, and a decoder for each relation."""

    def __init__(
        self,
        types: Mapping[str, int],
        relations: Sequence[Sequence[str]],
        hidden: int,
        vectors: int,
        decoder: str,
        dropout: float,
    ) -> None:
        super().__init__()
        self.relations: list[EdgeType] = [(head, name, tail) for head, name, tail in relations]
        self.project = nn.ModuleDict({name: nn.Linear(n, hidden) for name, n in types.items()})
        weighted = torch.ones(len(relations), vectors) if decoder == "distmult" else None
        self.decode = nn.Parameter(weighted) if weighted is not None else None
        self.dropout = nn.Dropout(dropout)

    @abstractmethod
    def encode(self, h: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        """Return a vector for each node."""

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Tensor],
        edge_label_index_dict: Mapping[EdgeType, Tensor],
    ) -> dict[EdgeType, Tensor]:
        """Return a logit for each pair of ``edge_label_index_dict``, by relation.

        ``edge_index_dict`` has the known links, each in the direction of its relation. All three
        are attributes of PyG's ``HeteroData``. A node type that had no features in training is left
        out of ``x_dict``: its nodes are those of training, in the same order.
        """
        inputs: Any = self.project.items()
        h: dict[str, Tensor] = {
            name: layer(x_dict[name]) if name in x_dict else layer.weight.T + layer.bias
            for name, layer in inputs
        }
        starts, count = {}, 0
        for name, rows in h.items():
            starts[name], count = count, count + rows.size(0)
        links, kinds = [], []
        for kind, relation in enumerate(self.relations):
            links.append(self._numbered(edge_index_dict[relation], relation, starts))
            kinds.append(torch.full_like(links[-1][0], kind))
        z = self.encode(torch.cat([*h.values()]), torch.cat(links, dim=1), torch.cat(kinds))
        return {
            relation: self._scores(z, self._numbered(pairs, relation, starts), relation)
            for relation, pairs in edge_label_index_dict.items()
        }

    def _numbered(self, ends: Tensor, relation: EdgeType, starts: Mapping[str, int]) -> Tensor:
        """Number the nodes across all types."""
        head, _, tail = relation
        return torch.stack([ends[0] + starts[head], ends[1] + starts[tail]])

    def _scores(self, z: Tensor, pairs: Tensor, relation: EdgeType) -> Tensor:
        products = z[pairs[0]] * z[pairs[1]]
        if self.decode is None:
            return products.sum(dim=1)
        return products @ self.decode[self.relations.index(relation)]


class LinkNetwork(_LinkNetwork):
    """Graph convolutions over all links, whatever their relation.

    Args:
        types: node types and the widths of their features.
        relations: source type, name and target type of each relation.
        hidden: width of all layers.
        layers: number of convolutions.
        convolution: ``gin``, ``gcn``, ``sage`` or ``gat``.
        heads: attention heads of ``gat``.
        decoder: weight the product of two nodes' vectors by the relation (``distmult``), or not
            (``dot``).
        dropout: rate in training.
    """

    def __init__(
        self,
        types: Mapping[str, int],
        relations: Sequence[Sequence[str]],
        hidden: int,
        layers: int,
        convolution: str,
        heads: int = 1,
        decoder: str = "distmult",
        dropout: float = 0.5,
    ) -> None:
        super().__init__(types, relations, hidden, hidden, decoder, dropout)
        self.layers = nn.ModuleList(
            new_convolution(convolution, hidden, hidden, heads) for _ in range(layers)
        )
        self.loops = convolution in ("gcn", "gat")
        self.activation = functional.elu if convolution == "gat" else functional.relu

    def encode(self, h: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:  # noqa: ARG002
        edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
        if self.loops:
            loops = torch.arange(h.size(0), device=h.device)
            edge_index = torch.cat([edge_index, torch.stack([loops, loops])], dim=1)
        for layer in self.layers[:-1]:
            h = self.dropout(self.activation(layer(h, edge_index)))
        vectors: Tensor = self.layers[-1](h, edge_index)
        return vectors


class SimpleHGN(_LinkNetwork):
    """Graph attention that uses the kind of each link.

    A node's vector concatenates its input embedding and the output of every layer, averaged over
    the heads, each scaled to length 1.

    Args:
        types: node types and the widths of their features.
        relations: source type, name and target type of each relation.
        hidden: width of all layers.
        heads: attention heads.
        layers: number of hidden layers, without the output layer.
        kind_width: width of the embeddings of link kinds.
        residual: add a linear map of a layer's input to its output.
        decoder: weight the product of two nodes' vectors by the relation (``distmult``), or not
            (``dot``).
        dropout: rate in training.
    """

    def __init__(
        self,
        types: Mapping[str, int],
        relations: Sequence[Sequence[str]],
        hidden: int,
        heads: int,
        layers: int,
        kind_width: int,
        residual: bool = False,
        decoder: str = "distmult",
        dropout: float = 0.5,
    ) -> None:
        super().__init__(types, relations, hidden, hidden * (layers + 2), decoder, dropout)
        kinds = 2 * len(relations) + 1
        self.layers = nn.ModuleList(
            KindAttention(width, hidden, heads, kind_width, kinds, residual, dropout)
            for width in [hidden, *[hidden * heads] * layers]
        )

    def encode(self, h: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        relations, loops = len(self.relations), torch.arange(h.size(0), device=h.device)
        edge_index = torch.cat([edge_index, edge_index.flip(0), torch.stack([loops, loops])], dim=1)
        edge_type = torch.cat(
            [edge_type, edge_type + relations, torch.full_like(loops, 2 * relations)]
        )
        outputs = [functional.normalize(h)]
        for layer in self.layers:
            h = layer(self.dropout(h), edge_index, edge_type)
            if layer is not self.layers[-1]:
                h = functional.elu(h)
            outputs.append(functional.normalize(h.mean(dim=1)))
            h = h.flatten(1)
        return torch.cat(outputs, dim=1)


class KindAttention(MessagePassing):  # type: ignore[misc]
    """Attention whose weights depend on both ends of a link and on its kind."""

    def __init__(
        self,
        in_width: int,
        out_width: int,
        heads: int,
        kind_width: int,
        kinds: int,
        residual: bool,
        dropout: float,
    ) -> None:
        super().__init__(aggr="add", node_dim=0)
        self.lin = nn.Linear(in_width, heads * out_width, bias=False)
        self.kind_weight = nn.Parameter(torch.empty(heads * kind_width, kind_width))
        self.att_src = nn.Parameter(torch.empty(heads, out_width))
        self.att_dst = nn.Parameter(torch.empty(heads, out_width))
        self.of_kind = nn.Parameter(torch.empty(heads, kind_width))
        self.kinds = nn.Parameter(torch.empty(kinds, kind_width))
        for parameter in self.parameters():
            nn.init.xavier_normal_(parameter)
        self.residual = nn.Linear(in_width, heads * out_width, bias=False) if residual else None
        self.dropout = nn.Dropout(dropout)

    def forward(self, x: Tensor, edge_index: Tensor, edge_type: Tensor) -> Tensor:
        mapped = self.lin(x).view(-1, *self.att_src.shape)  # [nodes, heads, width]
        kinds = (self.kinds @ self.kind_weight.T).view(-1, *self.of_kind.shape)
        sources, targets = edge_index
        scores = (
            (mapped * self.att_src).sum(dim=2)[sources]
            + (mapped * self.att_dst).sum(dim=2)[targets]
            + (kinds * self.of_kind).sum(dim=2)[edge_type]
        )
        weights = softmax(functional.leaky_relu(scores, 0.01), targets, num_nodes=x.size(0))
        summed: Tensor = self.propagate(edge_index, x=mapped, weights=self.dropout(weights))
        if self.residual is None:
            return summed
        own: Tensor = self.residual(x)
        return summed + own.view_as(summed)

    def message(self, x_j: Tensor, weights: Tensor) -> Tensor:
        return weights.unsqueeze(2) * x_j


def new_convolution(name: str, inputs: int, outputs: int, heads: int) -> Any:
    if name == "gin":
        return GINConv(
            nn.Sequential(nn.Linear(inputs, outputs), nn.ReLU(), nn.Linear(outputs, outputs))
        )
    if name == "gcn":
        return GCNConv(inputs, outputs, add_self_loops=False)
    if name == "sage":
        return SAGEConv(inputs, outputs)
    return GATConv(inputs, outputs // heads, heads, add_self_loops=False)
