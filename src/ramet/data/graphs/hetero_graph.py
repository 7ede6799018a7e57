"""One site's heterogeneous graph: nodes of several types, links of several relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


@dataclass(frozen=True)
class NodeType:
    """Nodes of one type. Without features, each node gets a learned embedding."""

    name: str
    nodes: int
    features: Tensor | None = None  # [nodes, width]

    @property
    def width(self) -> int:
        return self.nodes if self.features is None else self.features.size(1)


@dataclass(frozen=True)
class Relation:
    """Links from one node type to another, given as indices into the list of types."""

    name: str
    head: int
    tail: int


@dataclass(frozen=True)
class Links:
    """Pairs of nodes, each of one relation. Nodes are numbered across all types."""

    heads: Tensor  # [links]
    tails: Tensor  # [links]
    kinds: Tensor  # [links] index of the relation

    def __len__(self) -> int:
        return self.heads.numel()

    def __getitem__(self, chosen: Tensor) -> Links:
        return Links(self.heads[chosen], self.tails[chosen], self.kinds[chosen])

    @staticmethod
    def joined(parts: Sequence[Links]) -> Links:
        return Links(
            torch.cat([part.heads for part in parts]),
            torch.cat([part.tails for part in parts]),
            torch.cat([part.kinds for part in parts]),
        )


@dataclass(frozen=True)
class LabelledPairs:
    """Pairs of nodes, labelled as links or non-links."""

    pairs: Links
    labels: Tensor  # [pairs] 1.0 or 0.0


@dataclass(frozen=True)
class Flow:
    """Links in both directions plus a self loop per node, sorted for sums over incoming links.

    With R relations, the kind of a link is its relation r, R + r in the reverse direction, or 2R
    for a self loop.
    """

    nodes: int
    starts: Tensor  # [nodes + 1] offset of each target's links
    sources: Tensor  # [links]
    targets: Tensor  # [links]
    kinds: Tensor  # [links]
    back_starts: Tensor  # [nodes + 1] the same links sorted by source: offsets,
    back_targets: Tensor  # [links] targets,
    back_order: Tensor  # [links] and indices into the order by target

    @staticmethod
    def of(links: Links, nodes: int, relations: int) -> Flow:
        loops = torch.arange(nodes)
        sources = torch.cat([links.heads, links.tails, loops])
        targets = torch.cat([links.tails, links.heads, loops])
        kinds = torch.cat(
            [links.kinds, links.kinds + relations, torch.full((nodes,), 2 * relations)]
        )
        order = torch.argsort(targets, stable=True)
        sources, targets, kinds = sources[order], targets[order], kinds[order]
        back = torch.argsort(sources, stable=True)
        return Flow(
            nodes,
            _starts(targets, nodes),
            sources,
            targets,
            kinds,
            _starts(sources, nodes),
            targets[back],
            back,
        )


@dataclass(frozen=True)
class HeteroGraph:
    """Node types, relations, the links for message passing, and those to train on."""

    types: tuple[NodeType, ...]
    relations: tuple[Relation, ...]
    links: Links
    learned: Tensor  # [links] whether training predicts the link

    @property
    def nodes(self) -> int:
        return sum(kind.nodes for kind in self.types)

    @cached_property
    def type_starts(self) -> list[int]:
        starts = [0]
        for kind in self.types:
            starts.append(starts[-1] + kind.nodes)
        return starts

    @cached_property
    def flow(self) -> Flow:
        return Flow.of(self.links, self.nodes, len(self.relations))

    def random_tails(self, kinds: Tensor, draw: torch.Generator) -> Tensor:
        """Draw a random node of the relation's tail type for each relation index in ``kinds``."""
        first = torch.tensor([self.type_starts[r.tail] for r in self.relations])[kinds]
        sizes = torch.tensor([self.types[r.tail].nodes for r in self.relations])[kinds]
        share = torch.rand(kinds.numel(), generator=draw, dtype=torch.float64)
        return first + (share * sizes).long()

    def with_links(self, chosen: Tensor, learned: Tensor) -> HeteroGraph:
        return replace(self, links=self.links[chosen], learned=learned)

    def to(self, device: torch.device) -> HeteroGraph:
        if self.links.heads.device == device:
            return self
        moved = replace(
            self,
            types=tuple(
                replace(kind, features=None if kind.features is None else kind.features.to(device))
                for kind in self.types
            ),
            links=Links(*(t.to(device) for t in _tensors(self.links))),
            learned=self.learned.to(device),
        )
        moved.__dict__["flow"] = replace(
            self.flow, **{name: getattr(self.flow, name).to(device) for name in _FLOW}
        )
        return moved


_FLOW = ("starts", "sources", "targets", "kinds", "back_starts", "back_targets", "back_order")


def from_hetero_data(data: Any) -> HeteroGraph:
    """Convert PyG's ``HeteroData``, dropping edge types that are the reverse of an earlier one.

    All links serve message passing and training until they are split.
    """
    names = list(data.node_types)
    types = tuple(
        NodeType(name, int(data[name].num_nodes), _features(data[name])) for name in names
    )
    starts = torch.tensor([0, *[kind.nodes for kind in types]]).cumsum(0)
    relations: list[Relation] = []
    parts: list[Links] = []
    seen: list[tuple[int, int, Tensor]] = []
    for head, name, tail in data.edge_types:
        ends = torch.unique(data[head, name, tail].edge_index, dim=1)
        type_pair = names.index(head), names.index(tail)
        reversed_ends = torch.unique(ends.flip(0), dim=1)
        if any(type_pair == (b, a) and torch.equal(reversed_ends, other) for a, b, other in seen):
            continue
        seen.append((*type_pair, ends))
        kinds = torch.full((ends.size(1),), len(relations))
        parts.append(Links(ends[0] + starts[type_pair[0]], ends[1] + starts[type_pair[1]], kinds))
        relations.append(Relation(f"{head}-{name}-{tail}", *type_pair))
    links = Links.joined(parts)
    return HeteroGraph(types, tuple(relations), links, torch.ones(len(links), dtype=torch.bool))


def _features(store: Any) -> Tensor | None:
    return store.x.float() if "x" in store else None


def _starts(ends: Tensor, nodes: int) -> Tensor:
    return functional.pad(torch.bincount(ends, minlength=nodes).cumsum(0), (1, 0))


def _tensors(links: Links) -> tuple[Tensor, Tensor, Tensor]:
    return links.heads, links.tails, links.kinds
