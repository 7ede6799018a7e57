"""Read many graphs of one site from three tables, or from a folder with files per graph."""

from __future__ import annotations

import torch

from ramet.data.own.content import Content, Graphs, Nodes, are_known
from ramet.data.own.graph_folder import GraphFolder, GraphReader, Listed, unknown_label
from ramet.data.own.parts import GraphPart
from ramet.data.own.reading import edges_of, features_of
from ramet.data.own.tables import NO_PART


class ManyGraphs(GraphReader):
    """Reads the graphs of a site."""

    def read(self) -> Content | None:
        part = self._graphs
        listed = None if part.file is None else self._listed(part, part.file)
        if part.file is not None and listed is None:
            self._check_other_tables()
            return None
        content = self._from_folder(listed) if part.folder else self._from_tables(listed)
        return None if self.problems else content

    def _listed(self, part: GraphPart, given: str) -> Listed | None:
        table = self.table(given)
        more = [one for one in (part.split, part.time) if one is not None]
        classes = [*part.label_columns] if self.labelled else []
        if table is None or not table.has([part.id, *classes, *(more if self.is_split else [])]):
            return None
        table.note_unused({part.id, *part.label_columns, part.split, part.time})
        if not self.labelled:
            labels = torch.stack([unknown_label(self.description)] * len(table))
            return Listed(table.ids(part.id), labels, None, table)
        parts = table.parts(part.split) if self.is_split else None
        may_lack = part.time is not None or not self.is_split
        unlabelled = torch.full((len(table),), NO_PART) if may_lack else parts
        labels, times = self.labels_of(table, part.label_columns, unlabelled), None
        if part.time is not None and self.is_split:
            times = self.times.read(table, part.time, are_known(labels))
        return Listed(table.ids(part.id), labels, parts, table, times)

    def _check_other_tables(self) -> None:
        """Report the problems of the other tables as well."""
        for part in (self._node_part, self._edge_part):
            if part.file is not None:
                self.table(part.file)

    def _from_tables(self, listed: Listed | None) -> Content | None:
        nodes = self.table(str(self._node_part.file))
        edges = self.table(str(self._edge_part.file))
        node_part, edge_part = self._node_part, self._edge_part
        if nodes is not None and not self.is_split:
            node_part = node_part.only(nodes.columns)
        if edges is not None and not self.is_split:
            edge_part = edge_part.only(edges.columns)
        in_edges = [edge_part.source, edge_part.target, edge_part.graph, *edge_part.more_in_table]
        has_columns = [
            nodes is not None and nodes.has([node_part.id, node_part.graph, *node_part.in_table]),
            edges is not None and edges.has(in_edges),
        ]
        if nodes is None or edges is None or listed is None or not all(has_columns):
            return None
        nodes.note_unused({node_part.id, node_part.graph, *node_part.names, *node_part.columns})
        edges.note_unused({*edge_part.known, edge_part.graph})
        of_node = nodes.references(node_part.graph, listed.rows, "graph")
        rows = nodes.keys([nodes.texts(node_part.graph), nodes.texts(node_part.id)], node_part.id)
        features = features_of(nodes, self._node_name, node_part, self.preparer, of_node)
        graph_of_edge = edges.texts(edge_part.graph)
        heads, tails = (
            edges.references(column, rows, self._node_name, graph_of_edge)
            for column in (edge_part.source, edge_part.target)
        )
        filled = set(of_node.tolist())
        for name, row in listed.rows.items():
            if row not in filled:
                listed.report_empty(name, "no nodes")
        names = listed.table.identifiers(self._graphs.id)
        graphs = Graphs(names, of_node, listed.labels, listed.parts, listed.times)
        of_nodes = Nodes(features, ids=nodes.identifiers(node_part.id))
        ends, name = torch.stack([heads, tails]), self._edge_name
        if self.problems:
            return None
        of_edges = edges_of(edges, name, edge_part, ends, None, self.preparer, self.times)
        return self._content(of_nodes, of_edges, graphs)

    def _from_folder(self, listed: Listed | None) -> Content | None:
        given = (self.folder, self.toml, self.description, self.problems, self.preparer)
        return GraphFolder(*given, self.purpose, listed=listed).read()
