"""One site's graphs as one block of tensors, from which batches are cut by indexing.

Nothing is collated: a batch is a set of row ranges of the block. Links are stored in CSR format,
sorted by row. Columns count from the first node of their graph, so a batch only has to shift them.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from ramet.data.graphs.channel import Channel
from ramet.data.graphs.copies import copy_on
from ramet.data.graphs.link_values import NO_VALUES, Edges, HasEdges, LinkValues
from ramet.errors import RametError

with warnings.catch_warnings():
    # PyTorch warns once per process that CSR is in beta. Trigger and discard the warning here.
    warnings.simplefilter("ignore", UserWarning)
    torch.empty((0, 0)).to_sparse_csr()


@dataclass(frozen=True)
class Batch(HasEdges):
    """A batch of graphs, the input of a model.

    ``x``, ``edge_index``, ``edge_attr``, ``edge_weight`` and ``batch`` are for networks written for
    PyTorch Geometric. They are computed on first access.
    """

    features: Tensor
    """[nodes, features] of floats, or [nodes] with the index of the one-hot feature."""
    structure: Tensor
    """[nodes, structure] from the method's ``inputs``; of width 0 if it has none."""
    row_starts: Tensor  # [nodes + 1] where each node's links start
    columns: Tensor  # [links] the other end of each link
    graph: Tensor  # [nodes] which graph a node belongs to
    labels: Tensor
    """[graphs] classes, or [graphs, outputs] numbers or labels of 0 and 1, NaN where unknown."""
    feature_width: int
    label_scale: Tensor | None = None
    """[2, outputs] the mean and the deviation of numbers over all clients, if these agreed on them;
    or [classes] weights of classes.
    """
    spectrum: Tensor = field(default_factory=lambda: torch.empty(0))
    """[nodes, 1 + nodes of the largest graph]: an eigenvalue of the graph's Laplacian, and the
    node's components in all eigenvectors; empty if the method's ``inputs`` have no spectrum."""
    link_values: LinkValues = NO_VALUES
    """What links carry, each in the rows of both its ends; an entry of direction 1 goes to its row,
    and one of direction -1 comes from it."""

    @property
    def nodes(self) -> int:
        """Number of nodes in all graphs together."""
        return self.graph.numel()

    @property
    def graphs(self) -> int:
        """Number of graphs."""
        return self.labels.size(0)

    @cached_property
    def whole(self) -> Channel:
        """All links in one channel."""
        return Channel(self.row_starts, self.columns)

    @cached_property
    def x(self) -> Tensor:
        """[nodes, features] of floats; indices are expanded to one-hot vectors."""
        if self.features.is_floating_point():
            return self.features
        return functional.one_hot(self.features, self.feature_width).to(torch.float32)

    @cached_property
    def weighted(self) -> Channel:
        """All links in one channel, with their weights if they have any."""
        if self.link_values.weights is None:
            return self.whole
        return Channel(self.row_starts, self.columns, self.link_values.weights)

    @cached_property
    def both_ways(self) -> Edges:
        """Each link in both directions, sorted by target."""
        index = torch.stack([self.columns.to(torch.int64), self.whole.rows])
        return Edges(index, self.link_values, self.graph[:0])

    @property
    def batch(self) -> Tensor:
        """[nodes] which graph a node belongs to."""
        return self.graph

    def to(self, device: torch.device) -> Batch:
        if self.labels.device == device:
            return self
        moved: dict[str, Any] = {name: tensor.to(device) for name, tensor in _tensors(self).items()}
        return replace(self, **moved, link_values=self.link_values.to(device))


@dataclass(frozen=True)
class GraphBlock:
    """All graphs of one site. Each link is in the rows of both its ends, whichever way it goes."""

    features: Tensor  # as in Batch
    feature_width: int
    structure: Tensor  # [nodes, structure]
    columns: Tensor  # [links] counted from the first node of the graph
    degrees: Tensor  # [nodes]
    node_starts: Tensor  # [graphs + 1]
    labels: Tensor  # as in Batch
    class_count: int = 0  # 0: derived from the labels
    label_scale: Tensor | None = None  # as in Batch
    aligned: int = 0
    """The number of nodes, where a node means the same in every graph; 0 otherwise."""
    spectrum: Tensor = field(default_factory=lambda: torch.empty(0))  # rows as in Batch, unpadded
    link_values: LinkValues = NO_VALUES  # as in Batch
    class_weights: Tensor | None = None  # [classes] if the sites agreed on balanced ones

    @property
    def graphs(self) -> int:
        return self.labels.size(0)

    @property
    def nodes(self) -> int:
        return self.degrees.numel()

    @property
    def links(self) -> int:
        return self.columns.numel()

    @property
    def classes(self) -> int:
        if self.labels.is_floating_point():
            return self.labels.size(1)
        return self.class_count or int(self.labels.max()) + 1

    @cached_property
    def row_starts(self) -> Tensor:  # [nodes + 1]
        return _starts(self.degrees)

    @cached_property
    def link_starts(self) -> Tensor:  # [graphs + 1]
        return self.row_starts[self.node_starts]

    @cached_property
    def spectrum_starts(self) -> Tensor:  # [nodes + 1]
        sizes = self.node_starts.diff()
        return _starts((sizes + 1).repeat_interleave(sizes))

    def cut(self, graphs: Tensor) -> Batch:
        """Cut a batch of these graphs, in this order."""
        return next(self.cuts(graphs, max(graphs.numel(), 1)))

    def cuts(self, graphs: Tensor, size: int) -> Iterator[Batch]:
        """Cut batches of ``size`` of these graphs, whose indices are in the host's memory.

        They are copied to the block's device once for all batches. The host adds up the sizes of
        the batches, so it need not wait for the device.
        """
        here = self.labels.device
        wanted = zip(torch.split(graphs, size), torch.split(graphs.to(here), size), strict=True)
        for on_host, chosen in wanted:
            if here.type == "cpu":
                yield self._cut(chosen, None, None)
            else:
                nodes, links = (int(sizes[on_host].sum()) for sizes in self.sizes_on_host)
                yield self._cut(chosen, nodes, links)

    def _cut(self, graphs: Tensor, nodes_in_all: int | None, links_in_all: int | None) -> Batch:
        nodes, graph, first_node = _ranges(self.node_starts, graphs, nodes_in_all)
        return Batch(
            features=self.features.index_select(0, nodes),
            structure=self.structure.index_select(0, nodes),
            row_starts=_starts(self.degrees[nodes]).to(torch.int32),
            columns=self._columns_of(graphs, first_node.to(torch.int32), links_in_all),
            graph=graph,
            labels=self.labels[graphs],
            label_scale=self.label_scale,
            feature_width=self.feature_width,
            spectrum=self._spectrum_of(nodes) if self.spectrum.numel() else self.spectrum,
            link_values=self._values_of(graphs, links_in_all) if self.link_values else NO_VALUES,
        )

    def _values_of(self, graphs: Tensor, links_in_all: int | None) -> LinkValues:
        links, _, _ = _ranges(self.link_starts, graphs, links_in_all)
        return self.link_values[links]

    def _columns_of(self, graphs: Tensor, first_node: Tensor, links_in_all: int | None) -> Tensor:
        """[links] of the chosen graphs, counted from the first node of the batch."""
        if self.columns.device.type != "cpu":
            links, graph, _ = _ranges(self.link_starts, graphs, links_in_all)
            return self.columns[links].add_(first_node[graph])
        # joining slices takes fewer passes over memory than indexing
        starts, ends = self.link_starts[graphs].numpy(), self.link_starts[graphs + 1].numpy()
        columns = self.columns.numpy()
        slices = [columns[a:b] for a, b in zip(starts.tolist(), ends.tolist(), strict=True)]
        joined = np.concatenate([columns[:0], *slices])
        joined += np.repeat(first_node.numpy(), ends - starts)
        return torch.from_numpy(joined)

    def _spectrum_of(self, nodes: Tensor) -> Tensor:
        """[nodes, longest] rows of the spectrum, padded with zeros."""
        cells, row, first_cell = _ranges(self.spectrum_starts, nodes, None)
        column = torch.arange(cells.numel(), device=cells.device) - first_cell[row]
        padded = self.spectrum.new_zeros((nodes.numel(), int(column.max()) + 1))
        padded[row, column] = self.spectrum[cells]
        return padded

    @cached_property
    def sizes_on_host(self) -> tuple[Tensor, Tensor]:
        """[graphs] numbers of nodes and of links, each twice; in the host's memory."""
        return self.node_starts.diff().cpu(), self.link_starts.diff().cpu()

    def to(self, device: torch.device) -> GraphBlock:
        """The same block on a device; the copy is made once."""
        return copy_on(device, self, self.labels.device, lambda: self._moved(device))

    def _moved(self, device: torch.device) -> GraphBlock:
        tensors: dict[str, Any] = {n: tensor.to(device) for n, tensor in _tensors(self).items()}
        values = self.link_values.to(device)
        moved = replace(self, **tensors, class_count=self.classes, link_values=values)
        moved.__dict__["sizes_on_host"] = self.sizes_on_host
        return moved

    def with_structure(self, structure: Tensor) -> GraphBlock:
        return replace(self, structure=structure)

    def with_spectrum(self, spectrum: Tensor) -> GraphBlock:
        return replace(self, spectrum=spectrum)

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensor fields by name, for storing."""
        own = {name: tensor.contiguous() for name, tensor in _tensors(self).items()}
        return {**own, **self.link_values.tensors()}

    @staticmethod
    def from_tensors(tensors: Mapping[str, Tensor], feature_width: int) -> GraphBlock:
        values, own = LinkValues.taken_from(tensors)
        known: dict[str, Any] = {**own, "feature_width": feature_width, "link_values": values}
        return GraphBlock(**known)

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
        """Build a block from links in both directions, with nodes numbered across all graphs.

        Self loops and duplicates are dropped.
        """
        keep = rows != columns
        rows, columns = rows[keep], columns[keep]
        nodes = int(node_starts[-1])
        forward = torch.unique(rows * nodes + columns)
        backward = torch.unique(columns * nodes + rows)
        if not torch.equal(forward, backward):
            raise RametError(
                f"the graphs of {name} have one-way links, but graph classification needs "
                "undirected ones. Apply torch_geometric.transforms.ToUndirected() first."
            )
        rows, columns = forward // nodes, forward % nodes
        return _block_of_rows(rows, columns, node_starts, features, feature_width, labels)


def block_with_values(
    ends: Tensor,
    values: LinkValues,
    node_starts: Tensor,
    features: Tensor,
    feature_width: int,
    labels: Tensor,
) -> GraphBlock:
    """Build a block from links with values, each given once as [2, links]; all are kept.

    Links of direction 1 go from the first of their ends to the second.
    """
    rows, columns = torch.cat([ends.flip(0), ends], dim=1)  # where a link goes, then whence
    order = torch.argsort(rows * int(node_starts[-1]) + columns, stable=True)
    link, backward = order % max(ends.size(1), 1), order >= ends.size(1)
    block = _block_of_rows(
        rows[order], columns[order], node_starts, features, feature_width, labels
    )
    return replace(block, link_values=values[link].turned(backward))


def _block_of_rows(
    rows: Tensor,
    columns: Tensor,
    node_starts: Tensor,
    features: Tensor,
    feature_width: int,
    labels: Tensor,
) -> GraphBlock:
    """Build a block from the entries of the adjacency, sorted by row and column."""
    nodes, graph = int(node_starts[-1]), torch.repeat_interleave(node_starts.diff())
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
    """Return the fields that are tensors."""
    values = {f.name: getattr(of, f.name) for f in fields(of)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}


def _starts(sizes: Tensor) -> Tensor:
    """Turn [n] sizes into [n + 1] offsets."""
    return torch.cat([sizes.new_zeros(1), sizes.cumsum(0)])


def _ranges(
    starts: Tensor, chosen: Tensor, members_in_all: int | None
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the members of the chosen parts, the new part of each, and the new starts of parts."""
    first = starts[chosen]
    sizes = starts[chosen + 1] - first
    new_starts = _starts(sizes)[:-1]
    part = torch.repeat_interleave(sizes, output_size=members_in_all)
    members = (first - new_starts)[part] + torch.arange(part.numel(), device=part.device)
    return members, part, new_starts
