"""One site's graphs as one block of tensors, from which batches are cut by indexing.

Nothing is collated: a batch of graphs is a set of row ranges of the block. Links are kept in
compressed rows (CSR), sorted by row, with columns counted from the first node of their graph, so
a batch only has to shift them.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from ramet.errors import RametError

with warnings.catch_warnings():
    # PyTorch says once per process that CSR is in beta; say it here, where nobody listens.
    warnings.simplefilter("ignore", UserWarning)
    torch.empty((0, 0)).to_sparse_csr()


@dataclass(frozen=True)
class Batch:
    """Some graphs side by side: what a model computes on.

    ``x``, ``edge_index`` and ``batch`` are made when they are asked for, for networks written for
    PyTorch Geometric.
    """

    features: Tensor
    """[nodes, features] numbers, or [nodes] the index of the one-hot feature."""
    structure: Tensor
    """[nodes, structure] what the method's ``inputs`` gave; of width 0 if it has none."""
    row_starts: Tensor  # [nodes + 1] where each node's links start
    columns: Tensor  # [links] the other end of each link
    graph: Tensor  # [nodes] which graph a node belongs to
    labels: Tensor
    """[graphs]"""
    feature_width: int

    @property
    def nodes(self) -> int:
        """How many, of all graphs together."""
        return self.graph.numel()

    @property
    def graphs(self) -> int:
        """How many."""
        return self.labels.numel()

    @cached_property
    def degrees(self) -> Tensor:  # [nodes]
        return self.row_starts.diff()

    @cached_property
    def gcn_scale(self) -> Tensor:  # [nodes, 1]
        """[nodes, 1] (degree + 1)^-1/2, the factor of GCN's symmetric norm with self loops."""
        return (self.degrees + 1).to(torch.float32).rsqrt().unsqueeze(1)

    @cached_property
    def adjacency(self) -> Tensor:  # [nodes, nodes]
        """[nodes, nodes] in compressed rows, 1 for each link."""
        return torch.sparse_csr_tensor(
            self.row_starts,
            self.columns,
            torch.ones(self.columns.numel(), device=self.columns.device),
            (self.nodes, self.nodes),
            check_invariants=False,
        )

    @cached_property
    def rows(self) -> Tensor:  # [links]
        return torch.repeat_interleave(self.degrees)

    @cached_property
    def x(self) -> Tensor:  # [nodes, features]
        """[nodes, features] as numbers, also where they are kept as indices."""
        if self.features.is_floating_point():
            return self.features
        return functional.one_hot(self.features, self.feature_width).to(torch.float32)

    @cached_property
    def edge_index(self) -> Tensor:  # [2, links]
        """[2, links] from and to; each link in both directions."""
        return torch.stack([self.columns.to(torch.int64), self.rows])

    @property
    def batch(self) -> Tensor:  # [nodes]
        """[nodes] which graph a node belongs to."""
        return self.graph

    def to(self, device: torch.device) -> Batch:
        if self.labels.device == device:
            return self
        moved: dict[str, Any] = {name: own.to(device) for name, own in _tensors(self).items()}
        return replace(self, **moved)


@dataclass(frozen=True)
class GraphBlock:
    """All graphs of one site. Links are undirected: each stands in both rows."""

    features: Tensor  # as in Batch
    feature_width: int
    structure: Tensor  # [nodes, structure]
    columns: Tensor  # [links] counted from the first node of the graph
    degrees: Tensor  # [nodes]
    node_starts: Tensor  # [graphs + 1]
    labels: Tensor  # [graphs]
    class_count: int = 0  # where the site says so; otherwise as many as the labels show

    @property
    def graphs(self) -> int:
        return self.labels.numel()

    @property
    def nodes(self) -> int:
        return self.degrees.numel()

    @property
    def links(self) -> int:
        return self.columns.numel()

    @property
    def classes(self) -> int:
        return self.class_count or int(self.labels.max()) + 1

    @cached_property
    def row_starts(self) -> Tensor:  # [nodes + 1]
        return _starts(self.degrees)

    @cached_property
    def link_starts(self) -> Tensor:  # [graphs + 1]
        return self.row_starts[self.node_starts]

    def cut(self, graphs: Tensor) -> Batch:
        """The batch of these graphs, in this order."""
        nodes, graph, first_node = _ranges(self.node_starts, graphs)
        links, link_graph, _ = _ranges(self.link_starts, graphs)
        columns = self.columns[links].add_(first_node.to(torch.int32)[link_graph])
        return Batch(
            features=self.features[nodes],
            structure=self.structure[nodes],
            row_starts=_starts(self.degrees[nodes]).to(torch.int32),
            columns=columns,
            graph=graph,
            labels=self.labels[graphs],
            feature_width=self.feature_width,
        )

    def with_structure(self, structure: Tensor) -> GraphBlock:
        return replace(self, structure=structure)

    def tensors(self) -> dict[str, Tensor]:
        """Everything but the counts, by name, for storing."""
        return {name: own.contiguous() for name, own in _tensors(self).items()}

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor], feature_width: int) -> GraphBlock:
        return GraphBlock(**tensors, feature_width=feature_width, class_count=0)

    @staticmethod
    def from_links(
        rows: Tensor,
        columns: Tensor,
        node_starts: Tensor,
        features: Tensor,
        feature_width: int,
        labels: Tensor,
        name: str,
    ) -> GraphBlock:
        """Build from links (both directions listed, node numbers over the whole block)."""
        keep = rows != columns
        rows, columns = rows[keep], columns[keep]
        nodes = int(node_starts[-1])
        forward = torch.unique(rows * nodes + columns)
        backward = torch.unique(columns * nodes + rows)
        if not torch.equal(forward, backward):
            raise RametError(
                f"the graphs of {name} have one-way links, and graph classification takes "
                "undirected ones. Apply torch_geometric.transforms.ToUndirected() first."
            )
        rows, columns = forward // nodes, forward % nodes
        graph = torch.repeat_interleave(node_starts.diff())
        return GraphBlock(
            features=features,
            feature_width=feature_width,
            structure=torch.empty((nodes, 0)),
            columns=(columns - node_starts[graph[rows]]).to(torch.int32),
            degrees=torch.bincount(rows, minlength=nodes),
            node_starts=node_starts,
            labels=labels,
        )


def _tensors(of: Batch | GraphBlock) -> dict[str, Tensor]:
    """Its fields that are tensors."""
    own = {f.name: getattr(of, f.name) for f in fields(of)}
    return {name: value for name, value in own.items() if isinstance(value, Tensor)}


def _starts(sizes: Tensor) -> Tensor:
    """[n] sizes -> [n + 1] where each part starts, and where the last one ends."""
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def _ranges(starts: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The members of the chosen parts, the place of their part among the chosen, and its start."""
    sizes = starts[chosen + 1] - starts[chosen]
    new_starts = _starts(sizes)[:-1]
    part = torch.repeat_interleave(sizes)
    members = torch.arange(part.numel()) + (starts[chosen] - new_starts)[part]
    return members, part, new_starts
