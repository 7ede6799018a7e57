"""Undirected links in CSR format, the form in which message passing reads them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor

from ramet.data.graphs.flow import Flow, LinkSums, offsets


@dataclass(frozen=True)
class Channel:
    """Some of a graph's links in CSR format; each is in the rows of both its ends."""

    row_starts: Tensor  # [nodes + 1]
    columns: Tensor  # [2 · links]
    sums: LinkSums | None = None
    """How to sum over neighbours; None for sparse products."""

    @cached_property
    def degrees(self) -> Tensor:  # [nodes]
        return self.row_starts.diff()

    @cached_property
    def gcn_scale(self) -> Tensor:  # [nodes, 1]
        return scale(self.degrees)

    @cached_property
    def mean_scale(self) -> Tensor:  # [nodes, 1]
        return mean_scale(self.degrees)

    @property
    def rows(self) -> Tensor:  # [2 · links]
        return torch.repeat_interleave(self.degrees, output_size=self.columns.numel())

    @cached_property
    def adjacency(self) -> Tensor:  # [nodes, nodes] CSR of ones
        nodes = self.row_starts.numel() - 1
        ones = torch.ones(self.columns.numel(), device=self.columns.device)
        return torch.sparse_csr_tensor(
            self.row_starts, self.columns, ones, (nodes, nodes), check_invariants=False
        )

    @cached_property
    def flow(self) -> Flow:
        """Both directions of each link, and self loops."""
        return Flow.of_rows(self.row_starts, self.columns, self.sums)


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
