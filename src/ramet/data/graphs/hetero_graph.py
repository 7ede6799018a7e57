"""One site's heterogeneous graph: nodes of several types, links of several relations."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from ramet.data.graphs.channel import Channel, by_row
from ramet.data.graphs.copies import copy_on
from ramet.data.graphs.flow import Flow


@dataclass(frozen=True)
class NodeType:
    """Nodes of one type. Without features, each node gets a learned embedding."""

    name: str
    nodes: int
    features: Tensor | None = None  # [nodes, width]
    ids: NDArray[Any] | None = field(default=None, repr=False, compare=False)
    """[nodes] as in `NodeGraph`"""

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
    positions: tuple[Tensor, ...] = ()
    """Where the links of each kind are, in ascending order, if that is known."""

    def of_kind(self, kind: int) -> Tensor:
        """The positions of a kind's links."""
        if not self.positions:
            return (self.kinds == kind).nonzero().flatten()
        return self.positions[kind] if kind < len(self.positions) else self.kinds[:0]

    def __len__(self) -> int:
        return self.heads.numel()

    def __getitem__(self, chosen: Tensor) -> Links:
        return Links(self.heads[chosen], self.tails[chosen], self.kinds[chosen])

    def to(self, device: torch.device) -> Links:
        return self if self.heads.device == device else Links.copied([self], device)[0]

    @staticmethod
    def copied(parts: Sequence[Links], device: torch.device) -> list[Links]:
        """Copy links from the host to a device, all at once, and note the positions of kinds."""
        orders = [part.kinds.argsort(stable=True) for part in parts]
        whole = Links.joined(parts)
        table = torch.stack([whole.heads, whole.tails, whole.kinds, torch.cat(orders)]).to(device)
        columns = torch.split(table, [len(part) for part in parts], dim=1)
        counts = [torch.bincount(part.kinds).tolist() for part in parts]
        return [
            Links(heads, tails, kinds, torch.split(order, count))
            for (heads, tails, kinds, order), count in zip(columns, counts, strict=True)
        ]

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

    def to(self, device: torch.device) -> LabelledPairs:
        return LabelledPairs(self.pairs.to(device), self.labels.to(device))


@dataclass(frozen=True)
class HeldOutPairs:
    """Validation and test pairs."""

    val: LabelledPairs
    test: LabelledPairs


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
    def whole(self) -> Channel:
        """All links, whatever their relation; a pair that several relations link counts for each.

        A link from a node to itself counts twice.
        """
        starts, columns, _ = by_row(self.links.heads, self.links.tails, self.nodes)
        return Channel(starts, columns)

    @cached_property
    def flow(self) -> Flow:
        """Links in both directions, and a self loop per node."""
        sources, targets, _ = self._by_target
        return Flow(self.nodes, sources, targets)

    @property
    def flow_kinds(self) -> Tensor:
        """[links of the flow] With R relations: the relation r, R + r in reverse, 2R for loops."""
        return self._by_target[2]

    @cached_property
    def _by_target(self) -> tuple[Tensor, Tensor, Tensor]:
        """Sources, targets and kinds of the flow's links, sorted by target."""
        heads, tails, kinds = self.links.heads, self.links.tails, self.links.kinds
        relations, loops = len(self.relations), torch.arange(self.nodes, device=heads.device)
        sources, targets = torch.cat([heads, tails, loops]), torch.cat([tails, heads, loops])
        kinds = torch.cat([kinds, kinds + relations, torch.full_like(loops, 2 * relations)])
        order = torch.argsort(targets, stable=True)
        return sources[order], targets[order], kinds[order]

    def random_tails(self, kinds: Tensor, draw: torch.Generator) -> Tensor:
        """Draw a random node of the relation's tail type for each relation index in ``kinds``."""
        first = torch.tensor([self.type_starts[r.tail] for r in self.relations])[kinds]
        sizes = torch.tensor([self.types[r.tail].nodes for r in self.relations])[kinds]
        share = torch.rand(kinds.numel(), generator=draw, dtype=torch.float64)
        return first + (share * sizes).long()

    def with_links(self, chosen: Tensor, learned: Tensor) -> HeteroGraph:
        return replace(self, links=self.links[chosen], learned=learned)

    def to(self, device: torch.device) -> HeteroGraph:
        """The same graph on a device; the copy is made once, and keeps its cached values."""
        return copy_on(device, self, self.links.heads.device, lambda: self._moved(device))

    def _moved(self, device: torch.device) -> HeteroGraph:
        return replace(
            self,
            types=tuple(
                replace(kind, features=None if kind.features is None else kind.features.to(device))
                for kind in self.types
            ),
            links=self.links.to(device),
            learned=self.learned.to(device),
        )


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
