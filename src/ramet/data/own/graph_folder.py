"""Read the graphs of one site from a folder with files per graph."""

from __future__ import annotations

from abc import ABC
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from ramet.data.own.content import Content, Edges, Graphs, Nodes
from ramet.data.own.description import Description
from ramet.data.own.one_graph import SiteReader
from ramet.data.own.parts import EdgePart, GraphPart, NodePart
from ramet.data.own.paths import list_files
from ramet.data.own.problems import shown
from ramet.data.own.reading import edges_in, edges_of
from ramet.data.own.schema import target_kind
from ramet.data.own.tables import NO_PART, TABLES, Table, read_table
from ramet.data.own.tensors import SUFFIXES, read_tensors


@dataclass(frozen=True)
class Listed:
    """Content of the table of graphs."""

    rows: Mapping[str, int]
    labels: Tensor
    parts: Tensor | None
    table: Table
    times: Tensor | None = None

    def report_empty(self, name: str, lacks: str) -> None:
        line = self.table.lines[self.rows[name]]
        self.table.problems.add(self.table.file, f"graph {shown(name)} has {lacks}", line)


class GraphReader(SiteReader, ABC):
    """Reads many graphs. The description has one node type and one edge type."""

    def _content(self, nodes: Nodes, edges: Edges, graphs: Graphs) -> Content:
        return Content({self._node_name: nodes}, {self._edge_name: edges}, graphs)

    @property
    def _edge_name(self) -> str:
        return next(iter(self.description.edges))

    @property
    def _graphs(self) -> GraphPart:
        assert self.description.graphs is not None
        return self.description.graphs

    @property
    def _node_name(self) -> str:
        return next(iter(self.description.nodes))

    @property
    def _node_part(self) -> NodePart:
        return self.description.nodes[self._node_name]

    @property
    def _edge_part(self) -> EdgePart:
        return next(iter(self.description.edges.values()))


@dataclass(frozen=True)
class GraphFolder(GraphReader):
    """Reads graphs that each have a file of tensors, or two tables."""

    listed: Listed | None = None
    """The table of graphs, if there is one."""

    def read(self) -> Content | None:
        given, listed = str(self._graphs.folder), self.listed
        path = self.path(given)
        if path is None:
            return None
        if not path.is_dir():
            self.problems.add(self.toml, f"'{given}' is not a folder")
            return None
        files = {
            file.name: file
            for file in list_files(path, self.folder.resolve(), self.toml, self.problems)
        }
        names = self._names(files, given)
        if listed is not None:
            for name in sorted(listed.rows.keys() - set(names)):
                listed.report_empty(name, f"no file in {given}")
        read: list[tuple[Tensor, Edges]] = []
        labels: list[Tensor] = []
        for name in names:
            graph = self._graph(name, files, given)
            label = self._label(name, given, None if graph is None else graph[2])
            if graph is not None and label is not None:
                read.append(graph[:2])
                labels.append(label)
        if self.problems:
            return None
        sizes = torch.tensor([features.size(0) for features, _ in read])
        starts = (sizes.cumsum(0) - sizes).tolist()
        shifted = [
            replace(edges, ends=edges.ends + start)
            for (_, edges), start in zip(read, starts, strict=True)
        ]
        parts = times = None
        if listed is not None:
            rows = torch.tensor([listed.rows[name] for name in names])
            parts = None if listed.parts is None else listed.parts[rows]
            times = None if listed.times is None else listed.times[rows]
        features = torch.cat([features for features, _ in read]) if read else torch.empty((0, 1))
        ids = np.array(names, dtype=object)
        graphs = Graphs(ids, torch.repeat_interleave(sizes), torch.stack(labels), parts, times)
        return self._content(Nodes(features), _joined(shifted), graphs)

    def _names(self, files: Mapping[str, Path], given: str) -> list[str]:
        """Return the names of the graphs in a folder; files of no graph are problems."""
        names: list[str] = []
        for file in files.values():
            stem, suffix = file.stem, file.suffix.lower()
            if suffix in SUFFIXES:
                names.append(stem)
            elif stem.endswith(".nodes"):
                names.append(stem.removesuffix(".nodes"))
            elif not stem.endswith(".edges"):
                text = "is not NAME.nodes.csv, NAME.edges.csv, NAME.safetensors or NAME.pt"
                self.problems.add(f"{given}/{file.name}", text)
            elif self._graphs.file is None and self.labelled:
                text = "[graphs] needs 'file', a table with the classes, for graphs in tables"
                self.problems.add(self.toml, text)
                return []
        for name, count in Counter(names).items():
            if count > 1:
                self.problems.add(given, f"graph {shown(name)} is in {count} files")
        if not names:
            self.problems.add(given, "the folder has no graphs")
        return names

    def _graph(
        self, name: str, files: Mapping[str, Path], given: str
    ) -> tuple[Tensor, Edges, Tensor | None] | None:
        """Read the features, the edges and the label, if the file has it."""
        for suffix in SUFFIXES:
            if f"{name}{suffix}" in files:
                return self._from_tensors(files[f"{name}{suffix}"], f"{given}/{name}{suffix}")
        tables = {}
        for kind in ("nodes", "edges"):
            matches = [n for s in TABLES if (n := f"{name}.{kind}{s}") in files]
            if not matches:
                self.problems.add(given, f"graph {shown(name)} lacks {name}.{kind}.csv")
                return None
            tables[kind] = read_table(files[matches[0]], f"{given}/{matches[0]}", self.problems)
        nodes, edges = tables["nodes"], tables["edges"]
        node_part, edge_part = self._node_part, self._edge_part
        has_columns = [
            nodes is not None and nodes.has([node_part.id, *node_part.names]),
            edges is not None
            and edges.has([edge_part.source, edge_part.target, *edge_part.more_in_table]),
        ]
        if nodes is None or edges is None or not all(has_columns):
            return None
        nodes.note_unused({node_part.id, *node_part.names}, f"{given}/*.nodes.csv")
        edges.note_unused(edge_part.known, f"{given}/*.edges.csv")
        rows = nodes.ids(node_part.id)
        heads, tails = (
            edges.references(column, rows, self._node_name)
            for column in (edge_part.source, edge_part.target)
        )
        if not len(nodes):
            self.problems.add(nodes.file, "has no rows; a graph needs at least one node")
        ends, edge_name = torch.stack([heads, tails]), self._edge_name
        how = None, self.preparer, self.times
        of_graph = edges_of(edges, edge_name, edge_part, ends, *how)
        return nodes.numbers(node_part.names), of_graph, None

    def _from_tensors(self, file: Path, name: str) -> tuple[Tensor, Edges, Tensor | None] | None:
        tensors = read_tensors(file, name, self.problems)
        if tensors is None:
            return None
        features = tensors.features("", self._node_part.names)
        if features is None or not features.size(0):
            self.problems.add(name, "has no nodes: 'x' must have a row for each node", column="x")
            return None
        ends = tensors.ends("edge_index", features.size(0), features.size(0))
        if "edge_index" not in tensors.by_name:
            self.problems.add(name, "is missing", column="edge_index")
        edges = None if ends is None else edges_in(tensors, "", self._edge_part, ends)
        if self._graphs.file is None and self.labelled:
            parts = None if self.is_split else torch.tensor([NO_PART])
            y = tensors.labels_for(self.description, 1, parts)
            return None if y is None or edges is None else (features, edges, y[0])
        return None if edges is None else (features, edges, None)

    def _label(self, name: str, given: str, y: Tensor | None) -> Tensor | None:
        """Return the label from the table; without a table, the graph's own or an unknown one."""
        listed = self.listed
        if listed is None:
            return unknown_label(self.description) if y is None else y
        if name not in listed.rows:
            self.problems.add(listed.table.file, f"has no row for graph {shown(name)} of {given}")
            return None
        return listed.labels[listed.rows[name]]


def unknown_label(description: Description) -> Tensor:
    """No class, or none of the numbers or flags."""
    if target_kind(description.task) == "class":
        return torch.tensor(-1)
    return torch.full((len(description.outputs),), torch.nan)


def _joined(parts: Sequence[Edges]) -> Edges:
    """The edges of all graphs; those of a graph without any carry nothing either."""

    def values(name: str) -> Tensor | None:
        found = [one for edges in parts if (one := getattr(edges, name)) is not None]
        return torch.cat(found) if found else None

    ends = torch.cat([edges.ends for edges in parts], dim=1)
    return Edges(ends, None, values("attributes"), values("weights"), values("times"))
