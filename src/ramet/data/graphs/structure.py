r"""Structure encodings: what a graph tells about a node without its features.

.. math::
    s_v = [\mathbb 1(d_v = 1), \dots, \mathbb 1(d_v \ge k_1),\;
           T_{vv}, T^2_{vv}, \dots, T^{k_2}_{vv}], \qquad T = A D^{-1}

====================  =====================
paper (FedStar)       here
====================  =====================
k₁, width of DSE      ``degrees``
k₂, width of RWSE     ``walk``
====================  =====================

The diagonal of T^k equals that of S^k with the symmetric S = D^-½ A D^-½, and
diag(S^(a+b)) is the row sum of S^a ⊙ S^b: so only the first half of the powers is ever computed.
"""

from __future__ import annotations

import torch
from pydantic import NonNegativeInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from ramet.data.graphs.graph_block import Batch, GraphBlock

_DENSE_UP_TO = 128
"""Graphs with more nodes are walked by sparse products, a slice of start nodes at a time."""
_SLICE_CELLS = 2**18


@dataclass(frozen=True)
class StructureEncoding:
    """One-hot degree (capped, degree 0 all zero) beside random-walk return probabilities.

    ``isolated_as_one`` puts degree 0 with degree 1, as the FedStar authors' program does.
    """

    degrees: NonNegativeInt = 16
    walk: NonNegativeInt = 16
    isolated_as_one: bool = False

    @property
    def width(self) -> int:
        return self.degrees + self.walk

    def __call__(self, block: GraphBlock) -> Tensor:  # [nodes, width]
        return torch.cat([self._degree_part(block.degrees), self._walk_part(block)], dim=1)

    def _degree_part(self, degrees: Tensor) -> Tensor:
        lowest = 1 if self.isolated_as_one else 0
        capped = degrees.clamp(lowest, self.degrees)
        return (capped.unsqueeze(1) == torch.arange(1, self.degrees + 1)).to(torch.float32)

    def _walk_part(self, block: GraphBlock) -> Tensor:
        result = torch.zeros((block.nodes, self.walk))
        if not self.walk or not block.links:
            return result
        sizes = block.node_starts.diff()
        small = sizes <= _DENSE_UP_TO
        order = torch.argsort(sizes, stable=True)
        for graphs in of_like_size(order[small[order]], sizes):
            result[_nodes(block, graphs)] = _dense_returns(block, graphs, self.walk)
        for graphs in order[~small[order]].unsqueeze(1):
            result[_nodes(block, graphs)] = _sparse_returns(block, graphs, self.walk)
        return result


def of_like_size(ordered: Tensor, sizes: Tensor) -> list[Tensor]:
    """Cut graphs ordered by size into groups whose padded square matrices stay small."""
    groups: list[Tensor] = []
    start = 0
    for end in range(1, ordered.numel() + 1):
        cells = (end - start) * int(sizes[ordered[end - 1]]) ** 2
        if end == ordered.numel() or cells > _SLICE_CELLS:
            groups.append(ordered[start:end])
            start = end
    return groups


def _nodes(block: GraphBlock, graphs: Tensor) -> Tensor:
    """Where in the block the nodes of these graphs stand, graph by graph."""
    return torch.cat(
        [torch.arange(*block.node_starts[graph : graph + 2].tolist()) for graph in graphs.tolist()]
    )


def _values(batch: Batch) -> Tensor:  # [links]
    """The entries of S for the batch's links."""
    scale = batch.degrees.clamp(min=1).to(torch.float32).rsqrt()
    return scale[batch.rows] * scale[batch.columns]


def dense_adjacency(batch: Batch) -> tuple[Tensor, Tensor]:
    """[graphs, widest, widest] with zeros behind small graphs, and each node's place in its own."""
    sizes = batch.graph.bincount(minlength=batch.graphs)
    place = torch.arange(batch.nodes) - (sizes.cumsum(0) - sizes)[batch.graph]
    widest = int(sizes.max())
    matrix = torch.zeros((batch.graphs, widest, widest))
    matrix[batch.graph[batch.rows], place[batch.rows], place[batch.columns]] = 1.0
    return matrix, place


def _dense_returns(block: GraphBlock, graphs: Tensor, walk: int) -> Tensor:
    batch = block.cut(graphs)
    matrix, place = dense_adjacency(batch)
    matrix[batch.graph[batch.rows], place[batch.rows], place[batch.columns]] = _values(batch)
    powers = [matrix]
    while 2 * len(powers) < walk:
        powers.append(powers[-1] @ matrix)
    diagonals = [matrix.diagonal(dim1=1, dim2=2)]
    for step in range(2, walk + 1):
        half = step // 2
        diagonals.append((powers[half - 1] * powers[step - half - 1]).sum(dim=2))
    return torch.stack(diagonals, dim=2)[batch.graph, place]


def _sparse_returns(block: GraphBlock, graphs: Tensor, walk: int) -> Tensor:
    batch = block.cut(graphs)
    size = batch.nodes
    matrix = torch.sparse_csr_tensor(
        batch.row_starts, batch.columns, _values(batch), (size, size), check_invariants=False
    )
    returns = torch.zeros((size, walk))
    for chosen in torch.split(torch.arange(size), max(1, _SLICE_CELLS // size)):
        starts = torch.zeros((size, chosen.numel()))
        starts[chosen, torch.arange(chosen.numel())] = 1.0
        powers = [matrix @ starts]
        while 2 * len(powers) < walk:
            powers.append(matrix @ powers[-1])
        for step in range(2, walk + 1):
            half = step // 2
            returns[chosen, step - 1] = (powers[half - 1] * powers[step - half - 1]).sum(dim=0)
    return returns
