"""Sums over neighbours, hop by hop: all that some networks use of a graph's links.

A row that is summed has a norm of at most 1. So one link more or less changes the sums of a hop in
two rows, by at most 1 each, which is what noise for differential privacy is chosen for
(Sajadmanesh et al., *GAP*, USENIX Security 2023). Neither degrees nor any norm of them is used.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch
from torch import Tensor

from ramet.data.graphs.channel import GivenLinks, by_row
from ramet.data.graphs.node_graph import NodeGraph

Noise: TypeAlias = Callable[[Sequence[int]], Tensor]
"""Returns noise of a shape, in float64."""
_SMALLEST = 1e-12
"""Shorter rows stay short, so that gradients are finite."""


def hops_of(graph: NodeGraph, count: int) -> Tensor:
    """[nodes, (count + 1) · features] a graph's kept hops; without any, the exact ones."""
    if graph.hops is not None:
        return graph.hops
    cached: dict[int, Tensor] = graph.__dict__.setdefault("_exact_hops", {})
    if count not in cached:
        with torch.inference_mode(False):
            cached[count] = summed_hops(graph, count)
    return cached[count]


def summed_hops(graph: NodeGraph, count: int, noise: Noise | None = None) -> Tensor:
    """The features and the sums of each hop, in rows of norm 1; noise is added to the sums."""
    whole = graph.whole
    links = whole if isinstance(whole, GivenLinks) else distinct_links(graph)
    rows = [unit_rows(graph.features)]
    for _ in range(count):
        total = links.sums(rows[-1]) if isinstance(links, GivenLinks) else links @ rows[-1]
        rows.append(unit_rows(total if noise is None else total + noise(total.shape)))
    return torch.cat(rows, dim=1).float()


def distinct_links(graph: NodeGraph) -> Tensor:
    """[nodes, nodes] CSR of ones in float64: each pair of linked nodes once, without self loops."""
    low, high = (
        end.long() for end in (graph.left.minimum(graph.right), graph.left.maximum(graph.right))
    )
    pairs = torch.unique((low * graph.nodes + high)[low != high])
    starts, columns, _ = by_row(pairs // graph.nodes, pairs % graph.nodes, graph.nodes)
    ones = torch.ones(columns.numel(), dtype=torch.float64, device=columns.device)
    size = (graph.nodes, graph.nodes)
    return torch.sparse_csr_tensor(starts, columns, ones, size, check_invariants=False)


def unit_rows(values: Tensor) -> Tensor:
    """Rows of norm 1 in float64; a row of zeros, or one that is not finite, becomes zeros."""
    exact = values.double()
    scaled = exact / torch.linalg.vector_norm(exact, dim=1, keepdim=True).clamp(min=_SMALLEST)
    finite: Tensor = scaled.isfinite().all(dim=1, keepdim=True)
    return torch.where(finite, scaled, 0.0)
