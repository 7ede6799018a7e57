"""Which samples a model was trained and tested on, so that a later run on newer data keeps it.

A run remembers the part of every sample in its client's folder. Samples are known by a hash of
their ids: of a node, a graph or an edge, or of both ends of a link. A hash only keeps ids out of
sight: who can guess an id can find it.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import torch
from torch import Tensor

from ramet.data.graphs.edge_graph import EdgeGraph
from ramet.data.graphs.graph_block import GraphBlock
from ramet.data.graphs.hetero_graph import HeteroGraph
from ramet.data.link_split import LINK_SHARES
from ramet.data.own.site import Site
from ramet.data.own.tables import NO_PART, Ids
from ramet.data.splits import GRAPH_SHARES, NODE_SHARES, PARTS, drawn_parts, strata

_TRAIN = PARTS.index("train")
_UNKNOWN = -2
_HEX_DIGITS = 32


@dataclass(frozen=True)
class KeptParts:
    """The part of each known sample, by its hash."""

    part_of: Mapping[str, int] = field(default_factory=dict)

    @staticmethod
    def of(site: Site, seed: int) -> KeptParts:
        """The parts of a site's samples, without those that are in none."""
        pairs = zip(_hashes(site), site.sample_parts(seed).tolist(), strict=True)
        return KeptParts({sample: part for sample, part in pairs if part >= 0})

    def followed_by(self, later: KeptParts) -> KeptParts:
        """What is known after a later run; what was trained on once stays a training sample."""
        trained = {sample: part for sample, part in self.part_of.items() if part == _TRAIN}
        return KeptParts({**self.part_of, **later.part_of, **trained})

    def kept_in(self, site: Site, seed: int) -> Site:
        """The site, split so that known samples keep their part; new ones are drawn by the seed.

        A split that the site gives itself, also one by time, stays as it is.
        """
        if site.parts is not None or not self.part_of:
            return site
        parts = torch.tensor([self.part_of.get(one, _UNKNOWN) for one in _hashes(site)])
        new = parts == _UNKNOWN
        new[len(new) - site.stubs :] = False
        parts[new] = drawn_parts(_kinds(site)[new], _shares(site), seed)
        parts[parts == _UNKNOWN] = NO_PART
        return replace(site, parts=parts)

    def parts_in(self, site: Site) -> Tensor:  # [samples]
        """The part of each sample of a site, with or without its time; -1 of unknown ones."""
        every = [_hashes(site)]
        if site.times is not None:
            every.append(_hashes(replace(site, times=None)))
        known = (
            self.part_of.get(one, self.part_of.get(other, NO_PART))
            for one, other in zip(every[0], every[-1], strict=True)
        )
        return torch.tensor([*known], dtype=torch.int64)

    def text(self) -> str:
        by_part = {
            name: [sample for sample, part in self.part_of.items() if part == number]
            for number, name in enumerate(PARTS)
        }
        return json.dumps(by_part)

    @staticmethod
    def parse(text: str) -> KeptParts:
        """Raises ValueError, KeyError or TypeError if the text is damaged."""
        by_part = json.loads(text)
        return KeptParts({one: n for n, name in enumerate(PARTS) for one in by_part[name]})


@dataclass(frozen=True)
class Arrivals:
    """How many of a run's samples an earlier run knew."""

    known: int
    new: int
    moved: int
    """Samples for validation or test on which the earlier run trained."""
    kept: int
    """Known samples in the part that they were in."""

    @staticmethod
    def between(before: KeptParts, now: KeptParts) -> Arrivals:
        known = [sample for sample in now.part_of if sample in before.part_of]
        moved = [s for s in known if before.part_of[s] == _TRAIN and now.part_of[s] != _TRAIN]
        kept = sum(before.part_of[sample] == now.part_of[sample] for sample in known)
        return Arrivals(len(known), len(now.part_of) - len(known), len(moved), kept)


def _hashes(site: Site) -> list[str]:
    """A hash of the ids of each sample, and of its time if that decides on its part."""
    ids = _ids(site)
    if site.times is not None:  # the same account in another month is another sample
        ids = ((*one, repr(time)) for one, time in zip(ids, site.times.tolist(), strict=True))
    return [hashlib.sha256("\0".join(one).encode()).hexdigest()[:_HEX_DIGITS] for one in ids]


def _ids(site: Site) -> Iterator[tuple[str, ...]]:
    graph = site.graph
    if isinstance(graph, HeteroGraph):
        yield from _link_ids(site, graph)
        return
    (of_nodes,) = site.ids.values()
    if isinstance(graph, EdgeGraph) and site.sample_ids is None:
        yield from _ends(of_nodes, graph)
        return
    ids = of_nodes if site.sample_ids is None else site.sample_ids
    for one in ids.tolist():
        yield (str(one),)


def _ends(nodes: Ids, graph: EdgeGraph) -> Iterator[tuple[str, ...]]:
    """The ends of each edge, and how many edges before it have the same."""
    before = Counter[tuple[str, str]]()
    for source, target in graph.asked.ends.T.tolist():
        ends = str(nodes[source]), str(nodes[target])
        yield (*ends, str(before[ends]))
        before[ends] += 1


def _link_ids(site: Site, graph: HeteroGraph) -> Iterator[tuple[str, ...]]:
    """Relation and ends; those of equal types in one order, since either may come first."""
    ids = [str(one) for kind in graph.types for one in site.ids[kind.name].tolist()]
    links = graph.links
    triples = zip(links.heads.tolist(), links.tails.tolist(), links.kinds.tolist(), strict=True)
    for head, tail, kind in triples:
        relation, ends = graph.relations[kind], (ids[head], ids[tail])
        same_type = relation.head == relation.tail
        yield (relation.name, *(sorted(ends) if same_type else ends))


def _kinds(site: Site) -> Tensor:
    """What new samples are drawn in equal shares of: classes, or relations."""
    graph = site.graph
    return graph.links.kinds if isinstance(graph, HeteroGraph) else strata(graph.labels)


def _shares(site: Site) -> tuple[float, ...]:
    if isinstance(site.graph, HeteroGraph):
        return LINK_SHARES
    return GRAPH_SHARES if isinstance(site.graph, GraphBlock) else NODE_SHARES
