"""FedSSP's network: links are weighted by learned filters of the graph's spectrum."""

from __future__ import annotations

import math

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data.graphs.graph_block import Batch
from ramet.errors import RametError
from ramet.models.layers import Dropout, InputLinear, graph_sums
from ramet.models.settings import SpectralNetwork
from ramet.models.shape import GraphShape

_SCALE = 100.0
_LONGEST_WAVE = 10_000.0


class EigenvalueEncoder(nn.Module):
    """Linear([λ, sin(100 λ w), cos(100 λ w)]) with wavelengths from 1 to 10,000."""

    def __init__(self, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.linear = nn.Linear(hidden + 1, hidden)

    def forward(self, values: Tensor) -> Tensor:  # [graphs, eigenvalues, hidden]
        steps = torch.arange(0, self.hidden, 2, device=values.device) / self.hidden
        waves = _SCALE * values.unsqueeze(2) * torch.exp(-math.log(_LONGEST_WAVE) * steps)
        encoded: Tensor = self.linear(
            torch.cat([values.unsqueeze(2), waves.sin(), waves.cos()], dim=2)
        )
        return encoded


class Attention(nn.Module):
    """A layer of a Transformer over the eigenvalues of each graph."""

    def __init__(self, hidden: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.rate = heads, dropout
        self.before = nn.LayerNorm(hidden)
        self.project = nn.Linear(hidden, 3 * hidden)
        self.out = nn.Linear(hidden, hidden)
        self.forward_map = nn.Sequential(
            nn.LayerNorm(hidden), nn.Linear(hidden, hidden), nn.GELU(), nn.Linear(hidden, hidden)
        )
        self.dropout = Dropout(dropout)

    def forward(self, rows: Tensor, real: Tensor) -> Tensor:
        """``rows``: [graphs, eigenvalues, hidden]; ``real`` says which are not padding."""
        projected: Tensor = self.project(self.before(rows))
        apart = projected.reshape(*projected.shape[:2], 3, self.heads, -1)
        query, key, value = apart.permute(2, 0, 3, 1, 4)
        seen = functional.scaled_dot_product_attention(
            *(query, key, value),
            attn_mask=real[:, None, None],
            dropout_p=self.rate if self.training else 0.0,
        )
        rows = rows + self.dropout(self.out(seen.transpose(1, 2).flatten(2)))
        mapped: Tensor = self.dropout(self.forward_map(rows))
        return rows + mapped


class RowNorm(nn.BatchNorm1d):
    """Batch norm that uses its running statistics for fewer than two rows."""

    def forward(self, input: Tensor) -> Tensor:
        if self.training and len(input) > 1:
            return super().forward(input)
        return functional.batch_norm(
            input, self.running_mean, self.running_var, self.weight, self.bias, eps=self.eps
        )


class FilteredLayer(nn.Module):
    """x + Σ over neighbours of weight ⊙ gelu(W x), and then x + MLP(x)."""

    def __init__(self, hidden: int, dropout: float) -> None:
        super().__init__()
        self.message = nn.Linear(hidden, hidden)
        self.update = nn.Sequential(
            *(nn.Linear(hidden, hidden), RowNorm(hidden), nn.ReLU()),
            *(nn.Linear(hidden, hidden), RowNorm(hidden), nn.ReLU()),
        )
        self.dropout = Dropout(dropout)

    def forward(self, rows: Tensor, weights: Tensor, batch: Batch) -> Tensor:
        sent = functional.gelu(self.message(rows)).index_select(0, batch.whole.columns) * weights
        rows = rows + self.dropout(torch.zeros_like(rows).index_add(0, batch.whole.rows, sent))
        updated: Tensor = self.dropout(self.update(rows))
        return rows + updated


class SpectralGNN(nn.Module):
    """Message passing with link weights from filtered eigenvalues.

    Parameters: ``eigenvalues`` and ``filters`` are the spectral encoders; ``embed``, ``attend``,
    ``decode``, ``layers.0`` …, ``preference`` and ``classify`` are the rest.
    """

    def __init__(self, shape: GraphShape, settings: SpectralNetwork = SpectralNetwork()) -> None:  # noqa: B008
        super().__init__()
        hidden, dropout = settings.hidden, settings.dropout
        self.embed = InputLinear(shape.features, hidden)
        self.eigenvalues = EigenvalueEncoder(hidden)
        self.attend = Attention(hidden, settings.heads, dropout)
        self.decode = nn.Linear(hidden, settings.heads)
        self.filters = nn.Sequential(
            *(nn.Linear(settings.heads, hidden), RowNorm(hidden), nn.GELU()),
            *(nn.Linear(hidden, hidden), RowNorm(hidden), nn.GELU()),
        )
        self.layers = nn.ModuleList(FilteredLayer(hidden, dropout) for _ in range(settings.layers))
        self.preference = nn.Parameter(torch.zeros(hidden))
        self.classify = nn.Linear(hidden, shape.classes)
        self.dropout = Dropout(dropout)
        self.embedding_size = shape.classes, hidden

    def encode(self, batch: Batch) -> Tensor:  # [graphs, hidden]
        """The mean over nodes, before the preference is added."""
        weights = link_softmax(self.dropout(self.filters(self.link_filters(batch))), batch)
        rows = self.embed(batch.features).relu()  # [nodes, hidden]
        for layer in self.layers:
            rows = layer(rows, weights, batch)
        sizes = torch.bincount(batch.graph, minlength=batch.graphs).unsqueeze(1)
        return graph_sums(rows, batch) / sizes

    def forward(self, batch: Batch) -> Tensor:  # [graphs, classes]
        logits: Tensor = self.classify(self.encode(batch) + self.preference)
        return logits

    def link_filters(self, batch: Batch) -> Tensor:  # [links, heads]
        """Each head's entry of U g(Λ) Uᵀ for each link."""
        if not batch.spectrum.numel():
            raise RametError("this network needs the spectrum of each graph, which is not given.")
        values, real = padded_eigenvalues(batch)
        filtered = self.decode(self.attend(self.eigenvalues(values), real))
        modes, entries = batch.spectrum[:, 1:], []
        other_ends = modes.index_select(0, batch.whole.columns)
        for head in filtered.unbind(dim=2):  # [graphs, eigenvalues]
            scaled = modes * head.index_select(0, batch.graph)
            entries.append((scaled.index_select(0, batch.whole.rows) * other_ends).sum(dim=1))
        return torch.stack(entries, dim=1)


def padded_eigenvalues(batch: Batch) -> tuple[Tensor, Tensor]:
    """[graphs, nodes of the largest graph] eigenvalues, and which of them are not padding."""
    sizes = torch.bincount(batch.graph, minlength=batch.graphs)
    columns = torch.arange(batch.spectrum.size(1) - 1, device=sizes.device)
    real = columns < sizes.unsqueeze(1)
    values = batch.spectrum.new_zeros(real.shape)
    values[real] = batch.spectrum[:, 0]
    return values, real


def link_softmax(scores: Tensor, batch: Batch) -> Tensor:  # [links, width]
    """Softmax over the links of each node."""
    targets = batch.whole.rows.long().unsqueeze(1).expand_as(scores)
    none = scores.new_zeros((batch.nodes, scores.size(1)))
    largest = none.scatter_reduce(0, targets, scores.detach(), "amax")
    powers = (scores - largest.index_select(0, batch.whole.rows)).exp()
    return powers / none.index_add(0, batch.whole.rows, powers).index_select(0, batch.whole.rows)
