"""A site's files as checked tensors: nodes of each type, edges of each type, graphs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import torch
from torch import Tensor

from ramet.data.own.description import Description, EdgePart, NodePart
from ramet.data.own.paths import inside
from ramet.data.own.problems import Problems
from ramet.data.own.schema import width_of
from ramet.data.own.tables import Table, read_table
from ramet.data.own.tensors import Tensors, read_tensors

_PYG_OWN = "_global_store"


@dataclass(frozen=True)
class Nodes:
    """Nodes of one type, in the order of their file."""

    features: Tensor  # [nodes, features]
    labels: Tensor | None = None  # [nodes]
    parts: Tensor | None = None  # [nodes] of the split, if the site gives it

    @property
    def count(self) -> int:
        return self.features.size(0)


@dataclass(frozen=True)
class Edges:
    """Edges of one type; ends are places among the nodes of their types."""

    ends: Tensor  # [2, edges]
    parts: Tensor | None = None  # [edges]


@dataclass(frozen=True)
class Graphs:
    """Which graph each node belongs to, and the graphs' classes."""

    names: Sequence[str]
    of_node: Tensor  # [nodes]
    labels: Tensor  # [graphs]
    parts: Tensor | None = None  # [graphs]


@dataclass(frozen=True)
class Content:
    nodes: dict[str, Nodes]
    edges: dict[str, Edges]
    graphs: Graphs | None = None


def no_edges() -> Tensor:
    return torch.empty((2, 0), dtype=torch.int64)


@dataclass(frozen=True)
class OneGraph:
    """Reads one graph: each type from its table, or from the tensors, or it has none."""

    folder: Path
    toml: str
    said: Description
    problems: Problems

    def read(self) -> Content | None:
        nodes: dict[str, Nodes] = {}
        rows: dict[str, dict[str, int]] = {}
        for name in sorted(self.said.nodes):
            found = self._nodes(name, rows)
            if found is not None:
                nodes[name] = found
        edges: dict[str, Edges] = {}
        for name in sorted(self.said.edges):
            head, tail = self.said.ends(name)
            if head in nodes and tail in nodes:
                between = self._edges(name, nodes, rows)
                if between is not None:
                    edges[name] = between
            elif (file := self.said.edges[name].file) is not None:
                self._table(file)  # for what is wrong with it alone
        self._tell_undeclared()
        return None if self.problems else Content(nodes, edges)

    def _nodes(self, name: str, rows: dict[str, dict[str, int]]) -> Nodes | None:
        part = self.said.nodes[name]
        if part.file is not None:
            table = self._table(part.file)
            return None if table is None else self._nodes_of(table, part, name, rows)
        nothing = Nodes(torch.empty((0, width_of(part.names))), torch.empty(0, dtype=torch.int64))
        if self.said.tensors is None:
            rows[name] = {}
            return nothing
        if self._tensors is None:
            return None
        store = self._store(name)
        if f"{store}x" not in self._tensors.by_name:
            return nothing
        features = self._tensors.features(store, part.names)
        if features is None or self.said.task != "node-classification":
            return None if features is None else Nodes(features)
        parts = self._tensors.parts(features.size(0))
        labels = self._tensors.labels(self.said.classes, features.size(0), parts)
        return None if labels is None else Nodes(features, labels, parts)

    def _nodes_of(
        self, table: Table, part: NodePart, name: str, rows: dict[str, dict[str, int]]
    ) -> Nodes | None:
        classified = self.said.task == "node-classification"
        extra = [c for c in (part.label, part.split) if c is not None] if classified else []
        if not table.has([part.id, *part.names, *extra]):
            return None
        if not len(table):
            self.problems.add(table.file, f"has no rows. Without any {name} leave out its file")
            return None
        rows[name] = table.ids(part.id)
        features = table.numbers(part.names)
        if not classified or part.label is None:
            return Nodes(features)
        parts = table.parts(part.split)
        return Nodes(features, table.labels(part.label, self.said.classes, parts), parts)

    def _edges(
        self, name: str, nodes: dict[str, Nodes], rows: dict[str, dict[str, int]]
    ) -> Edges | None:
        part, (head, tail) = self.said.edges[name], self.said.ends(name)
        if part.file is not None:
            if head in rows and tail in rows:
                table = self._table(part.file)
                return None if table is None else self._edges_of(table, part, name, rows)
            text = f"[edges.{name}] is a table, so the nodes it joins must be tables too"
            self.problems.add(self.toml, text)
            return None
        if self._tensors is None:
            return Edges(no_edges())
        stored = "edge_index" if self._plain else f"{head}.{name}.{tail}.edge_index"
        ends = self._tensors.ends(stored, nodes[head].count, nodes[tail].count)
        if ends is None:
            return Edges(no_edges())
        self._tell_twice(ends, range(1, ends.size(1) + 1), self._tensors.file, name, stored)
        return Edges(ends)

    def _edges_of(
        self, table: Table, part: EdgePart, name: str, rows: dict[str, dict[str, int]]
    ) -> Edges | None:
        split = part.split if self.said.task == "link-prediction" else None
        if not table.has([part.source, part.target, *([split] if split else [])]):
            return None
        head, tail = self.said.ends(name)
        heads = table.references(part.source, rows[head], head)
        tails = table.references(part.target, rows[tail], tail)
        ends = torch.stack([heads, tails])
        self._tell_twice(ends, table.lines, table.file, name, part.target)
        return Edges(ends, table.parts(split))

    def _tell_undeclared(self) -> None:
        """A tensor of a type that the TOML does not know is more likely a slip than an extra."""
        if self._tensors is None or self._plain:
            return
        known = {*self.said.nodes, *(f"{h}.{n}.{t}" for n, (h, t) in self._all_ends().items())}
        for name in self._tensors.by_name:
            store = name.rpartition(".")[0]
            if store not in known and store != _PYG_OWN:
                text = "belongs to no type that the TOML declares"
                self.problems.add(self._tensors.file, text, column=name)

    def _all_ends(self) -> dict[str, tuple[str, str]]:
        return {name: self.said.ends(name) for name in self.said.edges}

    def _tell_twice(
        self, ends: Tensor, rows: Sequence[int], file: str, name: str, column: str
    ) -> None:
        """A link to predict must be there once, or it is trained on here and asked for there."""
        if self.said.task != "link-prediction":
            return
        head, tail = self.said.ends(name)
        seen: dict[tuple[int, int], int] = {}
        for row, (one, other) in zip(rows, ends.T.tolist(), strict=True):
            if min(one, other) < 0:
                continue  # told already
            if head == tail and one == other:
                self.problems.add(file, "the edge joins a node with itself", row, column)
                continue
            key = (min(one, other), max(one, other)) if head == tail else (one, other)
            first = seen.setdefault(key, row)
            if first != row:
                self.problems.add(file, f"the edge is there already, in row {first}", row, column)

    def _table(self, given: str) -> Table | None:
        path = inside(self.folder, given, self.toml, self.problems)
        return None if path is None else read_table(path, given, self.problems)

    @cached_property
    def _tensors(self) -> Tensors | None:
        given = self.said.tensors
        path = None if given is None else inside(self.folder, given, self.toml, self.problems)
        return None if path is None else read_tensors(path, str(given), self.problems)

    @property
    def _plain(self) -> bool:
        """Whether the tensors are those of a `Data`, without types."""
        return self._tensors is not None and "edge_index" in self._tensors.by_name

    def _store(self, name: str) -> str:
        return "" if self._plain else f"{name}."
