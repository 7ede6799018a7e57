"""Summarise a site's graphs by two distributions, and measure how much two sites differ.

Follows Fig. 1 of FedDense. The *feature* distribution is that of the cosine similarity between the
features of linked nodes. The *structure* distribution joins those of the degree and of the local
clustering coefficient. Sites are compared by the Jensen-Shannon divergence to base 2, which is 0
for equal distributions and 1 for disjoint ones.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from scipy.sparse import csr_array
from scipy.spatial.distance import jensenshannon
from torch import Tensor
from torch.nn import functional

from ramet.data.graphs.graph_block import Batch, GraphBlock
from ramet.data.graphs.structure import dense_adjacency, size_groups

_BINS = 20
_DEGREE_EDGES = torch.tensor([*range(17), 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 1024])
_DENSE_UP_TO = 512


@dataclass(frozen=True)
class Portrait:
    """Two distributions over fixed bins; each sums to 1."""

    feature: NDArray[np.float64]
    structure: NDArray[np.float64]


def portrait(block: GraphBlock, graphs: Tensor) -> Portrait:
    """Summarise these graphs of a block."""
    feature = torch.zeros(_BINS, dtype=torch.float64)
    degrees = torch.zeros(_DEGREE_EDGES.numel(), dtype=torch.float64)
    clustering = torch.zeros(_BINS, dtype=torch.float64)
    sizes = block.node_starts.diff()
    for group in size_groups(graphs[torch.argsort(sizes[graphs])], sizes):
        batch = block.cut(group)
        feature += _counts(_similarity(batch), -1.0, 1.0)
        bins = torch.bucketize(batch.whole.degrees, _DEGREE_EDGES).clamp(max=degrees.numel() - 1)
        degrees += torch.bincount(bins, minlength=degrees.numel())
        clustering += _counts(clustering_coefficients(batch), 0.0, 1.0)
    structure = torch.cat([degrees, clustering])
    return Portrait(_distribution(feature), _distribution(structure))


def divergences(sites: Sequence[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Jensen-Shannon divergence of every pair of sites."""
    return np.array([[jensenshannon(one, other, base=2) ** 2 for other in sites] for one in sites])


def clustering_coefficients(batch: Batch) -> Tensor:  # [nodes]
    """Share of each node's pairs of neighbours that are linked; 0 below two neighbours."""
    pairs = batch.whole.degrees * (batch.whole.degrees - 1)
    return _closed_pairs(batch) / pairs.clamp(min=1)


def _closed_pairs(batch: Batch) -> Tensor:  # [nodes]
    """Number of ordered pairs of neighbours that are linked: the row sums of A² ⊙ A."""
    if batch.graph.bincount(minlength=1).max() <= _DENSE_UP_TO:
        matrix, local_index = dense_adjacency(batch)
        return ((matrix @ matrix) * matrix).sum(dim=2)[batch.graph, local_index]
    links = (np.ones(batch.columns.numel()), batch.columns.numpy(), batch.row_starts.numpy())
    sparse = csr_array(links, shape=(batch.nodes, batch.nodes))
    return torch.from_numpy(np.asarray((sparse @ sparse).multiply(sparse).sum(axis=1)).ravel())


def _similarity(batch: Batch) -> Tensor:  # [links]
    ends = batch.features[batch.whole.rows], batch.features[batch.columns]
    if not batch.features.is_floating_point():  # the index of a one-hot feature
        return (ends[0] == ends[1]).to(torch.float64)
    return functional.cosine_similarity(*ends).to(torch.float64)


def _counts(values: Tensor, low: float, high: float) -> Tensor:
    return torch.histc(values.to(torch.float64).clamp(low, high), _BINS, low, high)


def _distribution(counts: Tensor) -> NDArray[np.float64]:
    shares: NDArray[np.float64] = (counts / counts.sum().clamp(min=1)).numpy()
    return shares
