"""Read and check a site's files: one graph, with a table or tensors for each type."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Literal, TypeAlias

import torch
from torch import Tensor

from ramet.data.own.columns import ColumnValues, absent_values
from ramet.data.own.content import Content, Edges, Nodes, are_known
from ramet.data.own.description import Description
from ramet.data.own.label_columns import targets_in
from ramet.data.own.parts import EdgePart, NodePart
from ramet.data.own.past import Past
from ramet.data.own.paths import resolve_inside
from ramet.data.own.preparer import Preparer
from ramet.data.own.problems import Problems
from ramet.data.own.reading import (
    absent_edges,
    edges_in,
    edges_of,
    features_of,
    repeated,
)
from ramet.data.own.rows import Rows, new_rows
from ramet.data.own.schema import target_kind, width_of
from ramet.data.own.tables import NO_PART, Table, read_table
from ramet.data.own.tensors import Tensors, read_tensors
from ramet.data.own.times import TimeReader

Purpose: TypeAlias = Literal["training", "prediction", "scoring"]
"""For scoring, classes are read as far as they are known, and no split."""


@dataclass(frozen=True)
class SiteReader(ABC):
    """Reads the files that a site's description names."""

    folder: Path
    toml: str
    description: Description
    problems: Problems
    preparer: Preparer
    purpose: Purpose = "training"
    past: Past | None = None
    """Tables of an earlier period that are read, too."""

    @property
    def labelled(self) -> bool:
        """Whether classes are read."""
        return self.purpose != "prediction"

    @property
    def is_split(self) -> bool:
        """Whether splits are read, and whoever lacks a class needs to be in no part."""
        return self.purpose == "training"

    @property
    def times(self) -> TimeReader:
        return TimeReader(past=self.by_time)

    @property
    def by_time(self) -> bool:
        """Whether samples are split by their times."""
        return self.is_split and self.description.split is not None

    def labels_of(self, table: Table, columns: Sequence[str], parts: Tensor | None) -> Tensor:
        """The labels in a table, as in `Nodes`; rows in no part may have none."""
        kind = target_kind(self.description.task)
        if kind == "class":
            return table.labels(columns[0], self.description.classes, parts)
        return targets_in(table, columns, kind, parts)

    @abstractmethod
    def read(self) -> Content | None:
        """The content of the files; None if they have problems."""

    def path(self, given: str) -> Path | None:
        return resolve_inside(self.folder, given, self.toml, self.problems)

    def table(self, given: str) -> Table | None:
        path = self.path(given)
        return None if path is None else read_table(path, given, self.problems)


class OneGraph(SiteReader):
    """Reads one graph. Each type is in a table, in the tensors, or absent."""

    def read(self) -> Content | None:
        nodes: dict[str, Nodes] = {}
        rows: dict[str, dict[str, int]] = {}
        for name in sorted(self.description.nodes):
            of_type = self._nodes(name, rows)
            if of_type is not None:
                nodes[name] = of_type
        edges: dict[str, Edges] = {}
        for name in sorted(self.description.edges):
            head, tail = self.description.ends(name)
            if head in nodes and tail in nodes:
                between = self._edges(name, nodes, rows)
                if between is not None:
                    edges[name] = between
            elif (file := self.description.edges[name].file) is not None:
                self.table(file)  # report the problems of the table itself
        if self._tensors is not None and not self._plain:
            ends = ((name, *self.description.ends(name)) for name in self.description.edges)
            known = {*self.description.nodes, *(f"{head}.{n}.{tail}" for n, head, tail in ends)}
            self._tensors.report_undeclared(known)
        if self.problems:
            return None
        return Content(nodes, edges)

    def _nodes(self, name: str, rows: dict[str, dict[str, int]]) -> Nodes | None:
        part = self.description.nodes[name]
        if self._tables.exist("nodes", name):
            table = self._tables.nodes(name)
            return None if table is None else self._nodes_of(table, part, name, rows)
        labels = torch.empty(0, dtype=torch.int64) if self._classified else None
        empty = Nodes(self._no_features(name), labels)
        if self.description.tensors is None:
            rows[name] = {}
            return empty
        if self._tensors is None:
            return None
        store = self._store(name)
        if f"{store}x" not in self._tensors.by_name:
            return empty
        features = self._tensors.features(store, part.names)
        if features is None or not self._classified:
            return None if features is None else Nodes(features)
        parts = self._tensors.parts(features.size(0)) if self.is_split else None
        times = self._tensors.times(store, part.time, features.size(0)) if self.by_time else None
        if self.by_time or not self.is_split:
            parts = torch.full((features.size(0),), NO_PART)
        labels = self._tensors.labels_for(self.description, features.size(0), parts)
        return None if labels is None else Nodes(features, labels, parts, None, times)

    def _nodes_of(
        self, table: Table, part: NodePart, name: str, rows: dict[str, dict[str, int]]
    ) -> Nodes | None:
        given = [*part.label_columns, *(c for c in (part.split, part.time) if c is not None)]
        extra = (given if self.is_split else part.label_columns) if self._classified else ()
        part = part if self.is_split else part.only(table.columns)
        if not table.has([part.id, *part.in_table, *extra]):
            return None
        if not len(table):
            self.problems.add(table.file, f"has no rows. If there are no {name} nodes, omit 'file'")
            return None
        table.note_unused({part.id, *given, *part.names, *part.columns})
        rows[name] = table.ids(part.id)
        features, ids = features_of(table, name, part, self.preparer), table.identifiers(part.id)
        if not self._classified or part.label is None:
            times = self._times(table, part, torch.zeros(len(table), dtype=torch.bool))
            return Nodes(features, ids=ids, times=times, new=table.own, stubs=table.stubs)
        parts = table.parts(part.split) if self.is_split else None
        may_lack = part.time is not None or not self.is_split
        no_part = torch.full((len(table),), NO_PART) if may_lack else parts
        labels = self.labels_of(table, part.label_columns, no_part)
        times = self._times(table, part, are_known(labels))
        return Nodes(features, labels, parts, ids, times, table.own, table.stubs)

    def _times(self, table: Table, part: NodePart, labelled: Tensor) -> Tensor | None:
        """The times of nodes, which in new data need not have any."""
        if part.time is None or (part.time not in table.columns and not self.is_split):
            return None
        return self.times.read(table, part.time, needed=labelled & self.is_split)

    @cached_property
    def _tables(self) -> Rows:
        return Rows(self.description, self.past, self.problems, self.table)

    def _no_features(self, name: str) -> Tensor:  # [0, features]
        part = self.description.nodes[name]
        if not part.columns:
            return torch.empty((0, width_of(part.names)))
        absent = {column: absent_values(one, 0) for column, one in part.prepared.items()}
        return self.preparer.features(name, ColumnValues(part.prepared, absent, 0))

    def _edges(
        self, name: str, nodes: dict[str, Nodes], rows: dict[str, dict[str, int]]
    ) -> Edges | None:
        part, (head, tail) = self.description.edges[name], self.description.ends(name)
        if self._tables.exist("edges", name):
            if head in rows and tail in rows:
                table = self._tables.edges(name)
                return None if table is None else self._edges_of(table, part, name, rows)
            text = f"[edges.{name}] is a table, so the nodes it joins must be tables too"
            self.problems.add(self.toml, text)
            return None
        if self._tensors is None:
            return absent_edges(name, part, self.preparer)
        stored = "edge_index" if self._plain else f"{head}.{name}.{tail}.edge_index"
        ends = self._tensors.ends(stored, nodes[head].count, nodes[tail].count)
        if ends is None:
            return absent_edges(name, part, self.preparer)
        if self.description.task == "link-prediction":
            lines, file = range(1, ends.size(1) + 1), self._tensors.file
            repeated(ends, head == tail, lines, file, stored, self.problems)
        store = stored.removesuffix("edge_index")
        edges = edges_in(self._tensors, store, part, ends)
        if not self.labelled or name != self.description.labelled:
            return edges
        parts = self._tensors.parts(ends.size(1)) if self.is_split else None
        given = ends.size(1), self._none(parts, ends), f"{store}edge_label"
        labels = self._tensors.labels(self.description.classes, *given)
        return replace(edges, labels=labels, parts=parts)

    def _edges_of(
        self, table: Table, part: EdgePart, name: str, rows: dict[str, dict[str, int]]
    ) -> Edges | None:
        asked = name == self.description.labelled
        classified = self.labelled and asked and part.label is not None
        linked = self.description.task == "link-prediction"
        split = part.split if (linked or classified) and self.is_split else None
        part = part if self.is_split else part.only(table.columns)
        named = [part.id, part.label if classified else None, split]
        in_table = [part.source, part.target, *part.more_in_table]
        if not table.has([*in_table, *(one for one in named if one is not None)]):
            return None
        table.note_unused(part.known)
        head, tail = self.description.ends(name)
        heads = table.references(part.source, rows[head], head)
        tails = table.references(part.target, rows[tail], tail)
        ends = torch.stack([heads, tails])
        if linked:
            repeated(ends, head == tail, table.lines, table.file, part.target, self.problems)
        given = table.parts(split)
        if linked and self.purpose == "scoring":
            given = new_rows(table)
        edges = edges_of(table, name, part, ends, given, self.preparer, self.times)
        if not asked:
            return edges
        labels, ids = None, None
        if classified:
            labels = self.labels_of(table, [str(part.label)], self._none(given, ends))
        if part.id is not None:
            table.ids(part.id)
            ids = table.identifiers(part.id)
        return replace(edges, labels=labels, ids=ids, new=table.own)

    def _none(self, parts: Tensor | None, ends: Tensor) -> Tensor | None:
        """The parts of edges; none if times decide on them, or in new data."""
        may_lack = self.by_time or not self.is_split
        return torch.full((ends.size(1),), NO_PART) if may_lack else parts

    @cached_property
    def _tensors(self) -> Tensors | None:
        given = self.description.tensors
        path = None if given is None else self.path(given)
        return None if path is None else read_tensors(path, str(given), self.problems)

    @property
    def _classified(self) -> bool:
        """Whether nodes have classes to read."""
        return self.labelled and self.description.level == "node"

    @property
    def _plain(self) -> bool:
        """Whether the tensors are from a `Data`, which has no types."""
        return self._tensors is not None and "edge_index" in self._tensors.by_name

    def _store(self, name: str) -> str:
        return "" if self._plain else f"{name}."
