"""One site's graph for node classification. Links may have hidden kinds; each is stored once."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self

import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from ramet.data.graphs.channel import Channel, by_row
from ramet.data.graphs.copies import copy_on, has_csr_products
from ramet.data.graphs.link_values import NO_VALUES, Edges, HasEdges, LinkValues
from ramet.data.graphs.outside import Outside

_LINKS_PER_CHUNK = 2**20
_MAX_DENSITY = 0.1
_TENSORS = ("features", "labels", "left", "right", "kinds", "trained")
_OPTIONAL = ("hops", "outside", "label_scale")


@dataclass(frozen=True)
class SparseFeatures:
    """Mostly zero features, such as bags of words, as sparse matrices by node and by feature."""

    by_node: Tensor  # [nodes, features] CSR
    by_feature: Tensor  # [features, nodes] CSR

    def to(self, device: torch.device) -> SparseFeatures:
        return SparseFeatures(self.by_node.to(device), self.by_feature.to(device))


@dataclass(frozen=True)
class NodeGraph(HasEdges):
    """Nodes with features and labels, and links between ``left`` and ``right``.

    ``left`` has the smaller node of each link, whichever way it goes. Without ``link_values``
    links are undirected. ``x``, ``edge_index``, ``edge_attr`` and ``edge_weight`` are for networks
    written for PyTorch Geometric.
    """

    features: Tensor  # [nodes, features]
    labels: Tensor
    """[nodes] classes, or [nodes, outputs] numbers or labels of 0 and 1, NaN where unknown."""
    classes: int
    """Number of classes in the federation, with those that no node here has; or of outputs."""
    left: Tensor  # [links] int32
    right: Tensor  # [links] int32
    kinds: Tensor  # [links] the true kind, for methods that may know it
    kind_names: tuple[str, ...]
    trained: Tensor  # [nodes] whether training may use the node's label
    hops: Tensor | None = None
    """[nodes, (hops + 1) · features] sums over neighbours in place of links; see `models.hops`."""
    link_values: LinkValues = NO_VALUES
    """What links carry; direction 1 goes from left to right. With values, each link counts."""
    label_scale: Tensor | None = None
    """[2, outputs] means and deviations of numbers, if clients agreed; or weights of classes."""
    outside: Outside | None = None
    """Links to nodes at other sites, for methods that may know them; None if they are unknown."""
    ids: NDArray[Any] | None = field(default=None, repr=False, compare=False)
    """[nodes] the site's own ids, for methods that may know them; None if they are unknown."""
    class_weights: Tensor | None = None  # [classes] if the sites agreed on balanced ones

    @cached_property
    def trained_nodes(self) -> Tensor:
        """[training nodes] their indices, in ascending order."""
        return self.trained.nonzero().flatten()

    @cached_property
    def trained_labels(self) -> Tensor:  # [training nodes]
        return self.labels[self.trained_nodes]

    @property
    def nodes(self) -> int:
        return self.features.size(0)

    @property
    def links(self) -> int:
        return self.left.numel()

    @property
    def x(self) -> Tensor:  # [nodes, features]
        return self.features

    @cached_property
    def both_ways(self) -> Edges:
        """Each link in both directions, sorted by target, and which link each edge is."""
        sources, targets = self.whole.columns, self.whole.rows
        values = self.link_values[self._link_of].turned(sources > targets)
        return Edges(torch.stack([sources.long(), targets]), values, self._link_of)

    @property
    def edge_type(self) -> Tensor:
        """[edges] the true kind of each edge of ``edge_index``."""
        return self.kinds[self.edges.links].long()

    @property
    def degrees(self) -> Tensor:  # [nodes]
        return self.whole.degrees

    @property
    def gcn_scale(self) -> Tensor:  # [nodes, 1]
        """(degree + 1)^-½, the factor of GCN's symmetric norm with self loops, over all links."""
        return self.whole.gcn_scale

    @cached_property
    def sparse_features(self) -> SparseFeatures | None:
        """None unless the features are mostly zero and the device supports sparse products."""
        density = self.features.count_nonzero() / max(self.features.numel(), 1)
        if density > _MAX_DENSITY or not has_csr_products(self.features):
            return None
        by_feature = self.features.T.contiguous().to_sparse_csr()
        return SparseFeatures(self.features.to_sparse_csr(), by_feature)

    @property
    def compact_features(self) -> Tensor | SparseFeatures:
        """The features, in sparse form if there is one."""
        return self.sparse_features or self.features

    @cached_property
    def whole(self) -> Channel:
        """All links in one channel."""
        return Channel(*self._by_row[:2])

    @cached_property
    def weighted(self) -> Channel:
        """All links in one channel, with their weights if they have any."""
        weights = self.link_values.weights
        if weights is None:
            return self.whole
        return Channel(self.whole.row_starts, self.whole.columns, weights[self._link_of])

    def channels(self, kinds: Tensor, count: int) -> Iterator[Channel]:
        """Yield a channel with the links of each kind."""
        by_row = kinds[self._link_of]
        for kind in range(count):
            chosen = by_row == kind
            before = functional.pad(chosen.cumsum(0, dtype=torch.int32), (1, 0))
            yield Channel(before[self.whole.row_starts], self.whole.columns[chosen])

    def subgraph(self, nodes: Tensor) -> NodeGraph:
        """Return the induced subgraph of some nodes, in the order given."""
        kept = torch.zeros(self.nodes, dtype=torch.bool, device=nodes.device)
        kept[nodes] = True
        return self.part(nodes, kept[self.left] & kept[self.right])

    def part(self, nodes: Tensor, links: Tensor) -> NodeGraph:
        """Return the graph of some nodes, in the order given, and of some links among them."""
        new_index = torch.empty(self.nodes, dtype=torch.int32, device=nodes.device)
        new_index[nodes] = torch.arange(nodes.numel(), dtype=torch.int32, device=nodes.device)
        left, right = new_index[self.left[links]], new_index[self.right[links]]
        return replace(
            self,
            features=self.features[nodes],
            labels=self.labels[nodes],
            trained=self.trained[nodes],
            left=torch.minimum(left, right),
            right=torch.maximum(left, right),
            kinds=self.kinds[links],
            link_values=self.link_values[links].turned(left > right),
            outside=None,
            ids=None if self.ids is None else self.ids[nodes.cpu().numpy()],
        )

    def with_neighbours(self, owners: Tensor, features: Tensor) -> NodeGraph:
        """Return a copy with one new node for each owner, linked only to that owner."""
        count = owners.numel()
        added = torch.arange(self.nodes, self.nodes + count, device=owners.device)
        joined = replace(
            self,
            features=torch.cat([self.features, features]),
            labels=torch.cat([self.labels, _no_labels(self.labels, count)]),
            trained=functional.pad(self.trained, (0, count)),
            left=torch.cat([self.left, owners.to(torch.int32)]),
            right=torch.cat([self.right, added.to(torch.int32)]),
            kinds=functional.pad(self.kinds, (0, count)),
            link_values=self.link_values.lengthened(count),
            ids=None,
        )
        joined.__dict__["sparse_features"] = None  # not worth it for a graph that is used once
        return joined

    def without_links(self, hops: Tensor) -> NodeGraph:
        """Return a copy of the nodes, with these sums in place of the links."""
        return replace(self.with_links(self.left[:0], self.left[:0]), hops=hops)

    def with_links(self, left: Tensor, right: Tensor) -> NodeGraph:
        """Return a copy with these links in place of the graph's own, all of one kind."""
        kinds, made_up = self.kinds.new_zeros(left.numel()), self.link_values[:0]
        values = made_up.lengthened(left.numel())
        return replace(self, left=left, right=right, kinds=kinds, link_values=values)

    def tensors(self) -> dict[str, Tensor]:
        """Return all tensors by name, for storing."""
        own = {name: getattr(self, name).contiguous() for name in _TENSORS}
        return {**own, **self.link_values.tensors()}

    def with_trained(self, chosen: Tensor) -> Self:
        """Return a copy with these nodes marked for training, sharing cached values."""
        trained, ascending = torch.zeros_like(self.trained), torch.unique(chosen)
        ascending = ascending.to(self.labels.device)
        trained[ascending] = True
        marked = self.sharing(replace(self, trained=trained))
        marked.__dict__["trained_nodes"] = ascending
        return marked

    def sharing(self, other: Self) -> Self:
        """Return another graph of the same nodes and links, with the values cached here."""
        edges = ("both_ways", "edges") if self.link_values else ()
        for computed in ("_by_row", "sparse_features", *edges):
            other.__dict__[computed] = getattr(self, computed)
        return other

    def to(self, device: torch.device) -> Self:
        """The same graph on a device; the copy is made once, and keeps its cached values."""
        return copy_on(device, self, self.labels.device, lambda: self._moved(device))

    def _moved(self, device: torch.device) -> Self:
        """Copy what depends on values, too, so that the host never waits for the device."""
        parts = {name: getattr(self, name) for name in (*_TENSORS, "link_values", *_OPTIONAL)}
        moved = replace(self, **{n: p.to(device) for n, p in parts.items() if p is not None})
        sparse = self.sparse_features if has_csr_products(moved.features) else None
        moved.__dict__["sparse_features"] = sparse and sparse.to(device)
        moved.__dict__["trained_nodes"] = self.trained_nodes.to(device)
        return moved

    @cached_property
    def _by_row(self) -> tuple[Tensor, Tensor, Tensor]:
        return by_row(self.left, self.right, self.nodes)

    @property
    def _link_of(self) -> Tensor:
        return self._by_row[2]


def _no_labels(like: Tensor, count: int) -> Tensor:
    return like.new_zeros((count, *like.shape[1:]))


def node_graph_of(
    tensors: Mapping[str, Tensor], classes: int, kind_names: tuple[str, ...]
) -> NodeGraph:
    """The graph of stored tensors."""
    values, own = LinkValues.taken_from(tensors)
    return NodeGraph(
        **own, classes=classes, kind_names=kind_names, outside=None, ids=None, link_values=values
    )


def edge_subgraph(graph: NodeGraph, chosen: Tensor) -> tuple[NodeGraph, Tensor]:
    """The graph of the chosen links and their end nodes, and these nodes' indices."""
    nodes = torch.unique(torch.cat([graph.left[chosen], graph.right[chosen]]))
    return graph.part(nodes, chosen), nodes


def edge_homophily(graph: NodeGraph, chosen: Tensor) -> float:
    """Share of the chosen links that join nodes of the same class (FedLIT, eq. 3).

    NaN without links, and where nodes have no classes.
    """
    if type(graph) is not NodeGraph:
        return float("nan")
    same_class = graph.labels[graph.left[chosen]] == graph.labels[graph.right[chosen]]
    return float(same_class.double().mean()) if same_class.numel() else float("nan")


def attribute_homophily(graph: NodeGraph, chosen: Tensor) -> float:
    """Mean cosine similarity of the features at both ends of the chosen links (FedLIT, eq. 4)."""
    unit = functional.normalize(graph.features.float())
    total = 0.0
    for links in torch.split(chosen, _LINKS_PER_CHUNK):
        ends = unit[graph.left[links]], unit[graph.right[links]]
        total += float((ends[0] * ends[1]).sum(dtype=torch.float64))
    return total / chosen.numel() if chosen.numel() else float("nan")
