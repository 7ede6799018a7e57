"""Undirected links in the forms that message passing reads: in CSR format, or as PyG has them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor

from ramet.data.graphs.flow import Flow, offsets


@dataclass(frozen=True)
class Channel:
    """Some of a graph's links in CSR format; each is in the rows of both its ends."""

    row_starts: Tensor  # [nodes + 1]
    columns: Tensor  # [2 · links]
    weights: Tensor | None = None
    """[2 · links] that the two entries of a link share; None if all are 1."""

    @cached_property
    def degrees(self) -> Tensor:  # [nodes]
        return self.row_starts.diff()

    @cached_property
    def gcn_scale(self) -> Tensor:  # [nodes, 1]
        if self.weights is None:
            return scale(self.degrees)
        zeros = self.weights.new_zeros(self.row_starts.numel() - 1)
        return scale(zeros.index_add(0, self.rows, self.weights))

    @cached_property
    def mean_scale(self) -> Tensor:  # [nodes, 1]
        return mean_scale(self.degrees)

    @cached_property
    def rows(self) -> Tensor:  # [2 · links]
        return torch.repeat_interleave(self.degrees, output_size=self.columns.numel())

    @cached_property
    def adjacency(self) -> Tensor:  # [nodes, nodes] CSR of the weights
        nodes = self.row_starts.numel() - 1
        weights = self.weights
        if weights is None:
            weights = torch.ones(self.columns.numel(), device=self.columns.device)
        return torch.sparse_csr_tensor(
            self.row_starts, self.columns, weights, (nodes, nodes), check_invariants=False
        )

    @cached_property
    def flow(self) -> Flow:
        """Both directions of each link, and self loops."""
        return Flow.of_rows(self.row_starts, self.columns)


Messages: TypeAlias = Callable[[Tensor, Tensor, Tensor], Tensor]
"""Takes an ``edge_index``, [nodes, …] rows and [edges, …] weights, and sums at the targets."""


@dataclass(frozen=True)
class GivenLinks:
    """Links as columns of PyG's ``edge_index``, in both directions and any order.

    Nothing depends on their number, so that programs for graphs of any size can be written.
    """

    edge_index: Tensor  # [2, edges]
    nodes: int
    messages: Messages
    chosen: Tensor | None = None
    """[edges] which edges count; None for all."""
    weights: Tensor | None = None
    """[edges] of floats; None if all are 1."""

    @property
    def columns(self) -> Tensor:  # [edges]
        return self.edge_index[0]

    @property
    def rows(self) -> Tensor:  # [edges]
        return self.edge_index[1]

    @cached_property
    def degrees(self) -> Tensor:  # [nodes]
        counted = torch.ones_like(self.rows) if self.chosen is None else self.chosen.long()
        return self.rows.new_zeros(self.nodes).scatter_add(0, self.rows, counted)

    @cached_property
    def gcn_scale(self) -> Tensor:  # [nodes, 1]
        if self.weights is None:
            return scale(self.degrees)
        return scale(self.weights.new_zeros(self.nodes).scatter_add(0, self.rows, self.weights))

    @cached_property
    def mean_scale(self) -> Tensor:  # [nodes, 1]
        return mean_scale(self.degrees)

    def sums(self, values: Tensor, weights: Tensor | None = None) -> Tensor:
        """The sums of the neighbours' rows, each times the weight of its link."""
        if weights is None and self.weights is not None:
            weights = self.weights.to(values.dtype).unsqueeze(1)
        elif weights is None:
            chosen = torch.ones_like(self.rows) if self.chosen is None else self.chosen
            weights = chosen.to(values.dtype).unsqueeze(1)
        return self.messages(self.edge_index, values, weights)

    @cached_property
    def flow(self) -> Flow:
        """All edges, and self loops at the end."""
        edges, loops = self.rows.numel(), torch.arange(self.nodes, device=self.rows.device)

        def with_loops(values: Tensor, weights: Tensor) -> Tensor:
            return self.sums(values, weights[:edges]) + values * weights[edges:]

        sources, targets = (torch.cat([ends, loops]) for ends in (self.columns, self.rows))
        return Flow(self.nodes, sources, targets, with_loops)


def scale(degrees: Tensor) -> Tensor:  # [nodes, 1]
    """(degree + 1)^-½, the factor of GCN's symmetric norm with self loops."""
    return (degrees + 1).to(torch.float32).rsqrt().unsqueeze(1)


def mean_scale(degrees: Tensor) -> Tensor:  # [nodes, 1]
    """1 / degree, or 1 without links: the factor of a mean over neighbours."""
    return degrees.clamp(min=1).to(torch.float32).reciprocal().unsqueeze(1)


def by_row(one: Tensor, other: Tensor, nodes: int) -> tuple[Tensor, Tensor, Tensor]:
    """Both directions of each link in CSR format: row offsets, columns, index of the link."""
    rows = torch.cat([one, other])
    order = torch.argsort(rows, stable=True)
    columns = torch.cat([other, one])[order]
    link_of = (order % max(one.numel(), 1)).to(torch.int32)
    return offsets(rows, nodes).to(torch.int32), columns.to(torch.int32), link_of
