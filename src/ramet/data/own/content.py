"""What a site's files hold, as tensors: nodes and edges of each type, and graphs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ramet.data.own.columns import Values
from ramet.data.own.tables import Ids


@dataclass(frozen=True)
class Nodes:
    """Nodes of one type, in the order of their file."""

    features: Tensor  # [nodes, features]
    labels: Tensor | None = None
    """[nodes] classes, -1 where unknown; or [nodes, outputs] numbers or flags, NaN where unknown.
    """
    parts: Tensor | None = None  # [nodes] part of the split, if the site provides one
    ids: Ids | None = None  # [nodes] None if nodes are numbered
    times: Tensor | None = None  # [nodes] days since 1970, NaN if there is none
    new: int | None = None
    """How many of them are not only of an earlier period; None for all."""
    stubs: int = 0
    """How many at the end stand for ids that only edges have; they are in no part."""

    @property
    def count(self) -> int:
        return self.features.size(0)


def are_known(labels: Tensor) -> Tensor:  # [samples]
    """Which samples have a class, or one of several numbers or flags."""
    return ~labels.isnan().all(dim=1) if labels.is_floating_point() else labels >= 0


@dataclass(frozen=True)
class Edges:
    """Edges of one type; ends are indices into the nodes of their types."""

    ends: Tensor  # [2, edges]
    parts: Tensor | None = None  # [edges]
    attributes: Tensor | None = None  # [edges, attributes]
    weights: Tensor | None = None  # [edges]
    times: Tensor | None = None  # [edges] days since 1970
    columns: Mapping[str, Values] = field(default_factory=dict)
    """What is aggregated, by column."""
    labels: Tensor | None = None  # [edges] classes, as those of nodes
    ids: Ids | None = None  # [edges]
    new: int | None = None
    """How many of them are not only of an earlier period; None for all."""
    present: Tensor | None = None
    """[edges] which of them are links of the graph; None for all."""

    @property
    def count(self) -> int:
        return self.ends.size(1)

    @property
    def is_plain(self) -> bool:
        return self.attributes is self.weights is self.times is None

    @property
    def there(self) -> Edges:
        """Only those that are links of the graph."""
        kept = self.present
        if kept is None:
            return self
        columns = {name: values[kept.numpy()] for name, values in self.columns.items()}
        given = {name: getattr(self, name) for name in ("parts", "attributes", "weights", "times")}
        own = {name: None if values is None else values[kept] for name, values in given.items()}
        return Edges(self.ends[:, kept], **own, columns=columns)


@dataclass(frozen=True)
class Graphs:
    """The graph of each node, and the class of each graph."""

    names: Ids
    of_node: Tensor  # [nodes]
    labels: Tensor  # [graphs], as those of nodes
    parts: Tensor | None = None  # [graphs]
    times: Tensor | None = None  # [graphs]


@dataclass(frozen=True)
class Content:
    nodes: dict[str, Nodes]
    edges: dict[str, Edges]
    graphs: Graphs | None = None

    def sample_ids(self, labelled: str) -> Ids | None:
        """The ids of graphs, or of the edges with classes; None for nodes."""
        if self.graphs is not None:
            return self.graphs.names
        return self.edges[labelled].ids if labelled else None

    def stubs(self, labelled: str) -> int:
        """How many of the last samples stand for ids that only edges have."""
        return 0 if labelled else sum(one.stubs for one in self.nodes.values())

    @property
    def classified(self) -> Nodes | Edges | Graphs | None:
        """The rows that have labels; None for links."""
        if self.graphs is not None:
            return self.graphs
        rows: list[Nodes | Edges] = [*self.nodes.values(), *self.edges.values()]
        return next((one for one in rows if one.labels is not None), None)

    def new(self, labelled: str) -> dict[str, int]:
        """By type, how many rows of those that are predicted are new, if others are not."""
        predicted = {labelled: self.edges[labelled]} if labelled else self.nodes
        return {name: one.new for name, one in predicted.items() if one.new is not None}


def no_edges() -> Tensor:
    return torch.empty((2, 0), dtype=torch.int64)
