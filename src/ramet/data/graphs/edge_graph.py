"""One site's graph for edge classification."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

import torch
from torch import Tensor

from ramet.data.graphs.node_graph import NodeGraph


@dataclass(frozen=True)
class LabelledEdges:
    """Edges with a class, in the order of a site's table; they need not be among the links."""

    ends: Tensor  # [2, edges] source and target
    attributes: Tensor | None = None  # [edges, width] floats
    ordered: bool = False
    """Whether edges go from source to target, or both ways."""

    @property
    def width(self) -> int:
        return 0 if self.attributes is None else self.attributes.size(1)

    def __getitem__(self, edges: Tensor) -> LabelledEdges:
        own = None if self.attributes is None else self.attributes[edges]
        return LabelledEdges(self.ends[:, edges], own, self.ordered)

    def to(self, device: torch.device) -> LabelledEdges:
        own = None if self.attributes is None else self.attributes.to(device)
        return LabelledEdges(self.ends.to(device), own, self.ordered)

    def tensors(self) -> dict[str, Tensor]:
        """All values by their names in PyG, for storing."""
        named = {"edge_label_index": self.ends, "edge_label_ordered": torch.tensor(self.ordered)}
        if self.attributes is not None:
            named["edge_label_attr"] = self.attributes
        return {name: tensor.contiguous() for name, tensor in named.items()}

    @staticmethod
    def taken_from(tensors: Mapping[str, Tensor]) -> tuple[LabelledEdges | None, dict[str, Tensor]]:
        """The edges among stored tensors, if they are there, and the other tensors."""
        own = {name: one for name, one in tensors.items() if name.startswith("edge_label_")}
        rest = {name: one for name, one in tensors.items() if name not in own}
        if not own:
            return None, rest
        ordered = bool(own["edge_label_ordered"])
        return LabelledEdges(own["edge_label_index"], own.get("edge_label_attr"), ordered), rest


@dataclass(frozen=True)
class EdgeGraph(NodeGraph):
    """Nodes and links, over which messages pass, and edges whose classes are predicted.

    ``labels`` and ``trained`` are those of ``asked``.
    """

    asked: LabelledEdges = field(kw_only=True)

    @staticmethod
    def of(graph: NodeGraph, asked: LabelledEdges, labels: Tensor) -> EdgeGraph:
        """A graph with edges of these labels."""
        own: dict[str, Any] = {one.name: getattr(graph, one.name) for one in fields(NodeGraph)}
        trained = torch.zeros(len(labels), dtype=torch.bool)
        return EdgeGraph(**{**own, "labels": labels, "trained": trained}, asked=asked)

    def with_trained(self, chosen: Tensor) -> Self:
        """Return a copy with these edges only, all for training, sharing cached values."""
        edges = torch.unique(chosen).to(self.labels.device)
        trained = torch.ones_like(edges, dtype=torch.bool)
        asked, labels = self.asked[edges], self.labels[edges]
        return self.sharing(replace(self, asked=asked, labels=labels, trained=trained))

    def tensors(self) -> dict[str, Tensor]:
        return {**super().tensors(), **self.asked.tensors()}

    def _moved(self, device: torch.device) -> Self:
        moved = super()._moved(device)
        return moved.sharing(replace(moved, asked=self.asked.to(device)))
