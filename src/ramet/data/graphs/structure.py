r"""Structure encodings: features of a node that depend only on the links of its graph.

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
diag(S^(a+b)) is the row sum of S^a ⊙ S^b, so only the first half of the powers is computed.
"""

from __future__ import annotations

import torch
from pydantic import NonNegativeInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from ramet.data.graphs.graph_block import Batch, GraphBlock

_DENSE_UP_TO = 128
"""Larger graphs use sparse products, for a slice of start nodes at a time."""
_MAX_CELLS = 2**18


@dataclass(frozen=True)
class StructureEncoding:
    """Capped one-hot degree, all zero for degree 0, and random-walk return probabilities.

    ``isolated_as_one`` encodes degree 0 as degree 1, as the FedStar authors' code does.
    ``spectrum`` adds the eigenvalues and eigenvectors of each graph's Laplacian, a field of their
    own.
    """

    degrees: NonNegativeInt = 16
    walk: NonNegativeInt = 16
    isolated_as_one: bool = False
    spectrum: bool = False

    @property
    def width(self) -> int:
        return self.degrees + self.walk

    def added_to(self, block: GraphBlock) -> GraphBlock:
        """The block with its encodings."""
        block = block.with_structure(self(block))
        return block.with_spectrum(laplacian_spectrum(block)) if self.spectrum else block

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
        for graphs in size_groups(order[small[order]], sizes):
            result[_nodes(block, graphs)] = _dense_returns(block, graphs, self.walk)
        for graphs in order[~small[order]].unsqueeze(1):
            result[_nodes(block, graphs)] = _sparse_returns(block, graphs, self.walk)
        return result


def size_groups(ordered: Tensor, sizes: Tensor) -> list[Tensor]:
    """Group graphs, ordered by size, so that the padded square matrices of a group stay small."""
    groups: list[Tensor] = []
    start = 0
    for end in range(1, ordered.numel() + 1):
        cells = (end - start) * int(sizes[ordered[end - 1]]) ** 2
        if end == ordered.numel() or cells > _MAX_CELLS:
            groups.append(ordered[start:end])
            start = end
    return groups


def laplacian_spectrum(block: GraphBlock) -> Tensor:
    """The block's field ``spectrum``: eigenvalues and eigenvectors of D - A, for each graph."""
    spectrum = torch.zeros(int(block.spectrum_starts[-1]))
    sizes = block.node_starts.diff()
    for size in sorted({*sizes[sizes > 0].tolist()}):
        same = (sizes == size).nonzero().flatten()
        for graphs in torch.split(same, max(1, _MAX_CELLS // size**2)):
            adjacency, _ = dense_adjacency(block.cut(graphs))
            laplacian = torch.diag_embed(adjacency.sum(dim=2)) - adjacency
            values, vectors = torch.linalg.eigh(laplacian.double())
            rows = torch.cat([values.unsqueeze(2), vectors], dim=2).flatten(0, 1)
            starts = block.spectrum_starts[_nodes(block, graphs)].unsqueeze(1)
            spectrum[starts + torch.arange(size + 1)] = rows.float()
    return spectrum


def _nodes(block: GraphBlock, graphs: Tensor) -> Tensor:
    """Return the indices of these graphs' nodes in the block, graph by graph."""
    return torch.cat(
        [torch.arange(*block.node_starts[graph : graph + 2].tolist()) for graph in graphs.tolist()]
    )


def _values(batch: Batch) -> Tensor:  # [links]
    """Return the entries of S for the batch's links."""
    scale = batch.whole.degrees.clamp(min=1).to(torch.float32).rsqrt()
    return scale[batch.whole.rows] * scale[batch.columns]


def dense_adjacency(batch: Batch) -> tuple[Tensor, Tensor]:
    """[graphs, largest, largest] padded with zeros, and each node's index within its graph."""
    sizes = batch.graph.bincount(minlength=batch.graphs)
    local_index = torch.arange(batch.nodes) - (sizes.cumsum(0) - sizes)[batch.graph]
    largest = int(sizes.max())
    matrix = torch.zeros((batch.graphs, largest, largest))
    matrix[
        batch.graph[batch.whole.rows], local_index[batch.whole.rows], local_index[batch.columns]
    ] = 1.0
    return matrix, local_index


def _dense_returns(block: GraphBlock, graphs: Tensor, walk: int) -> Tensor:
    batch = block.cut(graphs)
    matrix, local_index = dense_adjacency(batch)
    matrix[
        batch.graph[batch.whole.rows], local_index[batch.whole.rows], local_index[batch.columns]
    ] = _values(batch)
    powers = [matrix]
    while 2 * len(powers) < walk:
        powers.append(powers[-1] @ matrix)
    diagonals = [matrix.diagonal(dim1=1, dim2=2)]
    for step in range(2, walk + 1):
        half = step // 2
        diagonals.append((powers[half - 1] * powers[step - half - 1]).sum(dim=2))
    return torch.stack(diagonals, dim=2)[batch.graph, local_index]


def _sparse_returns(block: GraphBlock, graphs: Tensor, walk: int) -> Tensor:
    batch = block.cut(graphs)
    size = batch.nodes
    matrix = torch.sparse_csr_tensor(
        batch.row_starts, batch.columns, _values(batch), (size, size), check_invariants=False
    )
    returns = torch.zeros((size, walk))
    for chosen in torch.split(torch.arange(size), max(1, _MAX_CELLS // size)):
        starts = torch.zeros((size, chosen.numel()))
        starts[chosen, torch.arange(chosen.numel())] = 1.0
        powers = [matrix @ starts]
        while 2 * len(powers) < walk:
            powers.append(matrix @ powers[-1])
        for step in range(2, walk + 1):
            half = step // 2
            returns[chosen, step - 1] = (powers[half - 1] * powers[step - half - 1]).sum(dim=0)
    return returns
