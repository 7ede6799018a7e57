"""A site's graphs when samples are split by time: one as it was when each part ended.

The training graph has the links up to the end of training, and aggregates and ages from these
links alone. Validation and test have graphs of the same nodes with the links up to their own ends.
What the site tells about its columns comes from rows of the training period.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np
import torch
from torch import Tensor

from ramet.data.own.building import BUILDERS, Built, Graph, covers
from ramet.data.own.columns import ColumnValues
from ramet.data.own.computed import completed
from ramet.data.own.content import Content, Edges, are_known
from ramet.data.own.description import Description
from ramet.data.own.preparation import Preparation, agreed
from ramet.data.own.preparer import Preparer
from ramet.data.own.problems import Problems
from ramet.data.own.schema import OF_EDGES
from ramet.data.own.time_split import Periods
from ramet.data.own.times import link_times
from ramet.data.splits import PARTS

_HELD_OUT = PARTS[1:]


@dataclass(frozen=True)
class ByTime:
    """What a site's files hold, with the times of its samples."""

    content: Content
    """Without aggregates and ages; features are not prepared."""
    columns: Mapping[str, ColumnValues]
    """The columns of all rows, by table."""
    description: Description
    toml: str
    times: Tensor
    """[samples] in the order of the graph; NaN for those that are in no part."""
    periods: Periods

    @staticmethod
    def of(
        content: Content, columns: Mapping[str, ColumnValues], description: Description, toml: str
    ) -> ByTime:
        assert description.split is not None
        times, labels = _samples(content)
        known = ~times.isnan() if labels is None else are_known(labels) & ~times.isnan()
        times = times.masked_fill(~known, torch.nan)
        periods = description.split.periods(times[known])
        return ByTime(content, dict(columns), description, toml, times, periods)

    @property
    def parts(self) -> Tensor:
        """[samples] the part of each."""
        return self.periods.parts(self.times)

    def built(self, preparer: Preparer) -> Built:
        """The graphs of training, validation and test; the preparer gets the training's columns."""
        first = self.graph(self.periods.ends[0], preparer)
        if self.content.graphs is not None or self.times_of_links:
            return Built(first)
        agreement = preparer.agreement or agreed({"": preparer.sums(*sorted(preparer.columns))})
        ends = zip(_HELD_OUT, self.periods.ends[1:], strict=True)
        return Built(
            first,
            {part: self.graph(end, Preparer(preparer.smallest, agreement)) for part, end in ends},
        )

    def rebuilt(self, preparation: Preparation) -> Built | None:
        """The graphs as prepared by an agreement; None if it is about other columns."""
        if not covers(preparation, self.description, self.toml, Problems()):
            return None
        return self.built(Preparer(self.description.smallest_count, preparation))

    def in_words(self, what: str) -> str:
        """How many samples each part has, and until when it goes."""
        counts = torch.bincount(self.parts[self.parts >= 0], minlength=len(PARTS)).tolist()
        named = zip(
            ("training", "validation", "test"), self.periods.in_words(), counts, strict=True
        )
        listed = ", ".join(f"{part} until {end} has {count:,} {what}" for part, end, count in named)
        none = int((self.parts < 0).sum())
        labels = _samples(self.content)[1]
        lacking = 0 if labels is None else int((~are_known(labels)).sum())
        why = f", {lacking:,} of them without a class" if lacking else ""
        return f"split by time: {listed}; {none:,} are in no part{why}"

    @property
    def times_of_links(self) -> bool:
        """Whether the samples are links, so that those of training are the graph."""
        return self.description.level == "link"

    @property
    def counted(self) -> dict[str, np.ndarray]:
        """By table, which rows are of the training period; links of one graph are cut anyway."""
        end, content = self.periods.ends[0], self.content
        if content.graphs is not None:
            trained = (self.parts == 0)[content.graphs.of_node]
            return {
                **{name: trained.numpy() for name in content.nodes},
                **{f"{OF_EDGES}{n}": trained[e.ends[0]].numpy() for n, e in content.edges.items()},
            }
        if self.times_of_links:
            return {}
        return {
            **{
                name: (~(nodes.times >= end)).numpy()
                for name, nodes in content.nodes.items()
                if nodes.times is not None
            },
            **{f"{OF_EDGES}{name}": kept.numpy() for name, kept in self._links(end).items()},
        }

    def graph(self, end: float, preparer: Preparer) -> Graph:
        """The graph as it was at the end of a period."""
        links = None if self.content.graphs is not None or self.times_of_links else self._links(end)
        nodes = {
            name: replace(own, features=preparer.features(name, self._as_of(end, name)))
            if name in self.columns
            else own
            for name, own in self.content.nodes.items()
        }
        edges = {
            name: self._prepared(name, own, None if links is None else links[name], preparer)
            for name, own in self.content.edges.items()
        }
        content = replace(self.content, nodes=nodes, edges=edges)
        done = completed(content, self.description, preparer)
        built, _ = BUILDERS[self.description.level](done, self.description)
        return built

    def _as_of(self, end: float, name: str) -> ColumnValues:
        """The columns of nodes; ages in many graphs count to the last date of each anyway."""
        columns = self.columns[name]
        return columns if self.content.graphs is not None else columns.as_of(end)

    def _links(self, end: float) -> dict[str, Tensor]:
        """By edge type, which links there are before ``end``."""
        edges = self.content.edges
        return {name: before(self.content, self.description, name, end) for name in edges}

    def _prepared(self, name: str, own: Edges, kept: Tensor | None, preparer: Preparer) -> Edges:
        table = f"{OF_EDGES}{name}"
        own = replace(own, present=kept)
        if table not in self.columns:
            return own
        return replace(own, attributes=preparer.features(table, self.columns[table]))


def before(content: Content, description: Description, name: str, end: float) -> Tensor:
    """Which links of an edge type there are before ``end``."""
    own, (head, tail) = content.edges[name], description.ends(name)
    times = link_times(own.times, own.ends, (content.nodes[head].times, content.nodes[tail].times))
    return torch.ones(own.ends.size(1), dtype=torch.bool) if times is None else times < end


def _samples(content: Content) -> tuple[Tensor, Tensor | None]:
    """The times and the labels of the samples; labels are None for links."""
    rows = content.classified
    if rows is not None:
        return _given(rows.times, rows.labels), rows.labels
    return torch.cat([*_times_by_type(content)]), None


def _times_by_type(content: Content) -> Iterator[Tensor]:
    for name in sorted(content.edges):
        own = content.edges[name]
        yield _given(own.times, own.ends[0])


def _given(times: Tensor | None, rows: Tensor | None) -> Tensor:
    if times is not None:
        return times
    count = 0 if rows is None else len(rows)
    return torch.full((count,), torch.nan, dtype=torch.float64)
