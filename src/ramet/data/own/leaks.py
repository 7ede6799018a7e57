"""Warnings about data that tell a model today what is only known tomorrow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
import torch

from ramet.data.graphs.node_graph import NodeGraph
from ramet.data.own.aggregates import totals
from ramet.data.own.columns import Values
from ramet.data.own.content import Edges, Nodes
from ramet.data.own.periods import ByTime, before
from ramet.data.own.schema import OF_EDGES
from ramet.data.own.site import Site
from ramet.data.own.times import link_times

_ENOUGH, _ALMOST_ALL = 10, 0.99
"""A class needs so many rows, and a column so large a share of them, to be suspicious."""
_FEWEST_ROWS = 5
"""Per category, or else a category says little about others."""


def leaks(site: Site) -> list[str]:
    """What of a site's data is from after the time at which it is used, each with what to do."""
    if site.by_time is None:
        return [*_random_split(site)]
    found = _Leaks(site.by_time)
    return [
        *found.later_dates(),
        *found.telling_columns(),
        *found.whole_sums(),
        *found.links_without_times(),
        *found.links_before_their_ends(),
        *found.links_after_their_graph(),
    ]


def _random_split(site: Site) -> Iterator[str]:
    graph = site.graph
    if isinstance(graph, NodeGraph) and graph.link_values.times is not None and site.parts is None:
        yield (
            "edges have times and the split is random, so training sees edges from after the "
            'samples of the test. If classes change with time, add [split] with by = "time"'
        )


@dataclass(frozen=True)
class _Leaks:
    by_time: ByTime

    def later_dates(self) -> Iterator[str]:
        """Dates in a row that are after the time of the row."""
        for table, columns in self.by_time.columns.items():
            times = self._row_times(table)
            if times is None:
                continue
            for name, part in columns.parts.items():
                if part.kind not in ("date", "age") or part.absent:
                    continue
                dates = columns.dates(name)
                both = ~(np.isnan(dates) | np.isnan(times))
                later = np.floor(dates[both]) > np.floor(times[both])
                if later.any():
                    yield (
                        f"{table}: {name} is after the time of the row in {later.sum():,} of "
                        f'{later.size:,} rows, so it is not known yet. Declare it as "ignored"'
                    )

    def telling_columns(self) -> Iterator[str]:
        """Columns that tell the class alone, as those do that are filled in after it."""
        content = self.by_time.content
        tables: list[tuple[str, Nodes | Edges]] = [*content.nodes.items(), *content.edges.items()]
        for name, rows in tables:
            if rows.labels is None or rows.times is None or rows.labels.is_floating_point():
                continue
            known = (rows.labels >= 0).numpy()
            labels = rows.labels.numpy()[known]
            counts = np.bincount(labels) if labels.size else np.zeros(1, int)
            if (counts > 0).sum() < 2 or counts[counts > 0].min() < _ENOUGH:
                continue
            for column, values in self._columns(name, rows).items():
                share = _told(values[known], labels)
                if share >= _ALMOST_ALL:
                    yield (
                        f"{name}: {column} alone tells the class in {100 * share:.0f} % of the "
                        "rows of each class. If it is filled in after the class is known, declare "
                        'it as "ignored"'
                    )

    def whole_sums(self) -> Iterator[str]:
        """Columns of nodes that somebody has summed up from the links of all periods."""
        content, description = self.by_time.content, self.by_time.description
        end = self.by_time.periods.ends[0]
        for edge_type, edges in content.edges.items():
            kept = before(content, description, edge_type, end)
            if content.graphs is not None or bool(kept.all()):
                continue
            (head, tail), part = description.ends(edge_type), description.edges[edge_type]
            for node_type in {head, tail}:
                nodes = content.nodes[node_type]
                numbers = self._numbers(edge_type)
                every = totals(edges.ends.numpy(), numbers, nodes.count, part.directed)
                for column, values in self._columns(node_type, nodes).items():
                    if values.dtype == object or len(np.unique(values)) < 2:
                        continue
                    same = [what for what, one in every.items() if _equal(values, one)]
                    if same:
                        yield (
                            f"{node_type}: {column} is the {same[0]} of all {edge_type} edges, "
                            "also of those after training. Remove it, and declare aggregate in "
                            f"[edges.{edge_type}]"
                        )

    def links_without_times(self) -> Iterator[str]:
        if self.by_time.content.graphs is not None:
            return
        for name, edges in self.by_time.content.edges.items():
            if edges.times is None and edges.ends.numel():
                summed = " and sums up" if self.by_time.description.edges[name].aggregate else ""
                yield (
                    f"{name}: the edges have no times, so training uses{summed} all edges between "
                    "nodes that are there, also edges from later. Name the column with their dates "
                    f"as 'time' in [edges.{name}]"
                )

    def links_before_their_ends(self) -> Iterator[str]:
        """Nodes whose columns are read in training, over links from before their own time."""
        content, end = self.by_time.content, self.by_time.periods.ends[0]
        if content.graphs is not None:
            return
        for name, nodes in content.nodes.items():
            if nodes.times is None or not self._columns(name, nodes):
                continue
            early = torch.zeros(nodes.count, dtype=torch.bool)
            for edge_type, edges in content.edges.items():
                kept = before(content, self.by_time.description, edge_type, end)
                for at, of_type in zip(
                    edges.ends, self.by_time.description.ends(edge_type), strict=True
                ):
                    if of_type == name:
                        early[at[kept]] = True
            count = int((early & (nodes.times >= end)).sum())
            if count:
                yield (
                    f"{name}: {count:,} of {int((nodes.times >= end).sum()):,} rows from after "
                    "training have edges in training, which reads their columns. Make sure that "
                    "these were known then, or leave out those that change"
                )

    def links_after_their_graph(self) -> Iterator[str]:
        graphs = self.by_time.content.graphs
        if graphs is None or graphs.times is None:
            return
        for name, edges in self.by_time.content.edges.items():
            if edges.times is None:
                continue
            due = graphs.times[graphs.of_node[edges.ends[0]]]
            later = int((edges.times.floor() > due.floor()).sum())
            if later:
                yield (
                    f"{name}: {later:,} of {due.numel():,} edges are after the time of their "
                    "graph, so they are not known yet. Leave them out"
                )

    def _row_times(self, table: str) -> Values | None:
        """When each row of a table is; None if it does not say."""
        content, name = self.by_time.content, table.removeprefix(OF_EDGES)
        graphs, times = content.graphs, None
        if name == table:
            times = content.nodes[name].times
            if graphs is not None and graphs.times is not None:
                times = graphs.times[graphs.of_node]
            return None if times is None else times.numpy()
        edges = content.edges[name]
        ends = self.by_time.description.ends(name)
        nodes = content.nodes[ends[0]].times, content.nodes[ends[1]].times
        times = link_times(edges.times, edges.ends, nodes)
        return None if times is None else times.numpy()

    def _columns(self, name: str, rows: Nodes | Edges) -> Mapping[str, Values]:
        """The columns and features of a node type, or of an edge type."""
        of_nodes, described = isinstance(rows, Nodes), self.by_time.description
        table = name if of_nodes else f"{OF_EDGES}{name}"
        if table in self.by_time.columns:
            columns = self.by_time.columns[table]
            read = {n for n, part in columns.parts.items() if not part.absent}
            return {n: values for n, values in columns.values.items() if n in read}
        names = (described.nodes if of_nodes else described.edges)[name].names
        features = rows.features if isinstance(rows, Nodes) else rows.attributes
        return (
            {} if features is None else dict(zip(names, features.T.double().numpy(), strict=False))
        )

    def _numbers(self, edge_type: str) -> Mapping[str, Values]:
        """The columns of numbers of an edge type, and its weights."""
        edges, part = self.by_time.content.edges[edge_type], self.by_time.description.edges
        table = self.by_time.columns.get(f"{OF_EDGES}{edge_type}")
        found: dict[str, Values] = {}
        for name in part[edge_type].summed:
            if table is not None and name in table.values:
                found[name] = table.values[name]
            elif edges.attributes is not None and name in part[edge_type].names:
                place = part[edge_type].names.index(name)
                found[name] = edges.attributes[:, place].double().numpy()
            elif edges.weights is not None:
                found[name] = edges.weights.double().numpy()
        return found


def _told(values: Values, labels: Values) -> float:
    """The share of rows of each class that a column's value tells, on average over classes."""
    if values.dtype == object:
        names, codes, counts = np.unique(
            values.astype(str), return_inverse=True, return_counts=True
        )
        if len(names) < 2 or np.median(counts) < _FEWEST_ROWS:
            return 0.0
        table = np.zeros((len(names), labels.max() + 1))
        np.add.at(table, (codes, labels), 1 / np.bincount(labels)[labels])
        predicted = table.argmax(axis=1)[codes]
    else:
        from sklearn.tree import DecisionTreeClassifier  # takes a second to import

        given = np.nan_to_num(values, nan=np.nanmin(values) - 1 if (~np.isnan(values)).any() else 0)
        tree = DecisionTreeClassifier(
            max_leaf_nodes=int(labels.max()) + 2, class_weight="balanced", random_state=0
        )
        predicted = tree.fit(given[:, None], labels).predict(given[:, None])
    right = predicted == labels
    return float(np.mean([right[labels == one].mean() for one in np.unique(labels)]))


def _equal(one: Values, other: Values) -> bool:
    return bool(np.allclose(np.nan_to_num(one), np.nan_to_num(other), rtol=1e-4, atol=1e-6))
