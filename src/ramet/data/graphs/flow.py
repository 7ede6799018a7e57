"""Directed links in the orders that attention needs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias

import torch
from torch import Tensor
from torch.nn import functional

LinkSums: TypeAlias = Callable[[Tensor, Tensor], Tensor]
"""Sums the rows of each node's neighbours, each times the weight of its link.

Takes [nodes, …] rows and [links, …] weights in the order of the links, and returns [nodes, …].
"""


@dataclass(frozen=True)
class Csr:
    """Offsets and columns of a square matrix in CSR format, whose values change."""

    starts: Tensor  # [rows + 1] int32
    columns: Tensor  # [entries] int32

    def filled(self, values: Tensor) -> Tensor:  # [rows, rows]
        rows = self.starts.numel() - 1
        return torch.sparse_csr_tensor(
            self.starts, self.columns, values, (rows, rows), check_invariants=False
        )

    def repeated(self, times: int) -> Csr:
        """A block-diagonal matrix of equal blocks."""
        block = torch.arange(times, device=self.starts.device, dtype=torch.int32).unsqueeze(1)
        starts = self.starts[:-1] + block * self.columns.numel()
        columns = self.columns + block * (self.starts.numel() - 1)
        end = starts.new_full((1,), columns.numel())
        return Csr(torch.cat([starts.flatten(), end]), columns.flatten())


@dataclass(frozen=True)
class Flow:
    """Links sorted by target, for sums over incoming links; every node has a self loop."""

    nodes: int
    sources: Tensor  # [links]
    targets: Tensor  # [links]
    sums: LinkSums | None = field(default=None, repr=False, compare=False)
    """How to sum over incoming links, which may be in any order; None for sparse products."""
    _by_heads: dict[int, tuple[Csr, Csr]] = field(default_factory=dict, repr=False, compare=False)

    @cached_property
    def starts(self) -> Tensor:
        """[nodes + 1] offset of each target's links"""
        return offsets(self.targets, self.nodes)

    @cached_property
    def back_order(self) -> Tensor:
        """[links] indices of the links sorted by source"""
        return torch.argsort(self.sources, stable=True)

    @staticmethod
    def of_rows(row_starts: Tensor, columns: Tensor) -> Flow:
        """A flow from each row's columns to the row, and a self loop at the end of each row."""
        nodes, links_and_loops = row_starts.numel() - 1, columns.numel() + row_starts.numel() - 1
        loops = torch.arange(nodes, device=columns.device)
        rows = torch.repeat_interleave(row_starts.diff(), output_size=columns.numel())
        sources = columns.new_empty(links_and_loops, dtype=torch.int64)
        sources[torch.arange(columns.numel(), device=columns.device) + rows] = columns.long()
        sources[row_starts[1:] + loops] = loops
        sizes = row_starts.diff() + 1
        targets = torch.repeat_interleave(sizes, output_size=links_and_loops).long()
        return Flow(nodes, sources, targets)

    def for_heads(self, heads: int) -> tuple[Csr, Csr]:
        """The links and their reverse as matrices with a block for each attention head."""
        if heads not in self._by_heads:
            back_starts = offsets(self.sources, self.nodes).to(torch.int32)
            forward = Csr(self.starts.to(torch.int32), self.sources.to(torch.int32))
            reverse = Csr(back_starts, self.targets[self.back_order].to(torch.int32))
            self._by_heads[heads] = forward.repeated(heads), reverse.repeated(heads)
        return self._by_heads[heads]


def offsets(ends: Tensor, nodes: int) -> Tensor:  # [nodes + 1]
    """Where each node's links start when links are sorted by these ends."""
    if ends.device.type == "cpu":
        counts = torch.bincount(ends, minlength=nodes)
    else:  # bincount would make the host wait for the largest of them
        counts = torch.zeros(nodes, dtype=torch.int64, device=ends.device)
        counts.scatter_add_(0, ends.long(), torch.ones_like(ends, dtype=torch.int64))
    return functional.pad(counts.cumsum(0), (1, 0))
