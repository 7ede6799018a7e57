"""Tables of the data of clients and sites."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table

from ramet.data.own.advice import ColumnSummary
from ramet.data.own.schema import shown_column
from ramet.partition.inspection import (
    ClientRelations,
    ClientSummary,
    LinkKindSummary,
    NodeTypeSummary,
    RelationSummary,
)
from ramet.report.plain_table import plain_table
from ramet.report.text import plural

_BY_CLASS = "graphs by class"

_MOST_CLASSES = 5
"""Of more classes, the parts of the split are counted as a whole."""


def site_table(name: str, task: str, statistics: Mapping[str, Any]) -> Table:
    """Counts of a site's graphs, nodes, edges, classes and split."""
    table = plain_table(f"{name}, for {task}")
    table.add_column("item", overflow="fold")
    table.add_column("count", justify="right", no_wrap=True)
    table.add_column("mean degree", justify="right", no_wrap=True)
    table.add_column("largest", justify="right", no_wrap=True)
    if "graphs" in statistics:
        table.add_row("graphs", f"{statistics['graphs']:,}")
    for kind, count in statistics["nodes"].items():
        table.add_row(f"nodes: {kind}", f"{count:,}")
    for kind, facts in statistics["edges"].items():
        cells = f"{facts['edges']:,}", f"{facts['mean degree']:g}", f"{facts['largest degree']:,}"
        table.add_row(f"edges: {kind}", *cells)
    for what, word in (("classes", "class"), ("labels", "label")):
        for kind, count in statistics.get(what, {}).items():
            table.add_row(f"{word}: {kind}", f"{count:,}")
    for part, count in statistics["split"].items():
        classes = statistics.get("classes by part", {}).get(part, {})
        named = ", ".join(f"{name} {own:,}" for name, own in classes.items())
        few = f" ({named})" if 0 < len(classes) <= _MOST_CLASSES else ""
        table.add_row(f"split: {part}{few}", f"{count:,}")
    return table


def columns_table(columns: Sequence[ColumnSummary]) -> Table:
    """A row per column: its missing values, its content, and what other members learn."""
    table = plain_table("columns")
    for head in ("column", "kind", "missing", "content", "leaves this site"):
        table.add_column(head, overflow="fold")
    for one in columns:
        missing = f"{one.missing:,} of {one.rows:,}"
        table.add_row(
            shown_column(one.type, one.column), one.kind, missing, one.content, one.leaves
        )
    return table


def graphs_table(
    clients: Mapping[str, ClientSummary],
    divergences: Mapping[str, NDArray[np.float64]],
    setting: str,
) -> Table:
    """A row per client: its graphs, and its mean divergence from the others."""
    table = plain_table(f"{setting}: {plural(len(clients), 'client')}")
    table.add_column("client", overflow="fold")
    for head in ("graphs", "nodes", "links", "features", _BY_CLASS, *divergences):
        table.add_column(head, justify="right", no_wrap=head != _BY_CLASS)
    others = max(len(clients) - 1, 1)
    for index, (client, held) in enumerate(clients.items()):
        means = [f"{matrix[index].sum() / others:.3f}" for matrix in divergences.values()]
        table.add_row(
            client,
            f"{held.graphs:,}",
            f"{held.nodes:.1f}",
            f"{held.links:.1f}",
            str(held.features),
            " ".join(map(str, held.classes)),
            *means,
        )
    table.caption = (
        "nodes, links: mean over graphs; features: number of node features; "
        f"{' and '.join(divergences)} (last columns): mean Jensen–Shannon divergence from the "
        "other clients, from 0 (identical) to 1 (nothing in common)"
    )
    return table


def kinds_table(kinds: Mapping[str, LinkKindSummary], setting: str) -> Table:
    """A row per kind of link."""
    table = plain_table(f"{setting}: kinds of links")
    table.add_column("kind", overflow="fold")
    for head in ("links", "edge homophily", "attribute homophily"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, kind in kinds.items():
        table.add_row(
            name,
            f"{kind.links:,}",
            f"{kind.edge_homophily:.3f}",
            f"{kind.attribute_homophily:.3f}",
        )
    table.caption = (
        "edge homophily: share of links between nodes of the same class; attribute homophily: mean "
        "cosine similarity of the features of linked nodes"
    )
    return table


def links_table(clients: Mapping[str, Mapping[str, int]]) -> Table:
    """A row per client: its nodes, and its links of each kind."""
    table = plain_table("clients: nodes, and links of each kind")
    table.add_column("client", overflow="fold")
    heads = dict.fromkeys(head for counts in clients.values() for head in counts)
    for head in heads:
        table.add_column(head, justify="right", no_wrap=True)
    for client, counts in clients.items():
        table.add_row(client, *(f"{counts.get(head, 0):,}" for head in heads))
    return table


def differences_table(
    clients: Sequence[str],
    divergences: Mapping[str, NDArray[np.float64]],
    classes: Mapping[str, Mapping[str, int]],
) -> Table:
    """A row per client: its classes, and its mean divergence from the others."""
    table = plain_table("differences between clients")
    table.add_column("client", overflow="fold")
    by_class = ["nodes by class"] if classes else []
    for head in (*by_class, *divergences):
        table.add_column(head, justify="right", no_wrap=head not in by_class)
    others = max(len(clients) - 1, 1)
    for index, client in enumerate(clients):
        means = [f"{matrix[index].sum() / others:.3f}" for matrix in divergences.values()]
        counts = [" ".join(map(str, classes[client].values()))] if classes else []
        table.add_row(client, *counts, *means)
    table.caption = (
        f"{', '.join(divergences)}: mean Jensen–Shannon divergence from the other clients, from 0 "
        "(identical) to 1 (nothing in common), of the shares of classes or relations, of the "
        "values of each feature, and of the nodes' degrees"
    )
    return table


def types_table(types: Mapping[str, NodeTypeSummary], setting: str) -> Table:
    """A row per node type."""
    table = plain_table(f"{setting}: node types")
    table.add_column("type", overflow="fold")
    for head in ("nodes", "features"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, kind in types.items():
        width = "learned embedding" if kind.features is None else f"{kind.features:,}"
        table.add_row(name, f"{kind.nodes:,}", width)
    return table


def relations_table(relations: Mapping[str, RelationSummary]) -> Table:
    """A row per relation."""
    table = plain_table("relations")
    for head in ("relation", "from", "to"):
        table.add_column(head, overflow="fold")
    for head in ("training links", "validation pairs", "test pairs"):
        table.add_column(head, justify="right", no_wrap=True)
    for name, relation in relations.items():
        counts = (f"{count:,}" for count in (relation.links, relation.val, relation.test))
        table.add_row(name, relation.head, relation.tail, *counts)
    table.caption = "pairs: held-out links, and pairs of nodes that are not linked"
    return table


def specialities_table(clients: Mapping[str, ClientRelations]) -> Table:
    """A row per client: links of each relation, with a star at those it learns to predict."""
    table = plain_table("clients: links of each relation")
    table.add_column("client", overflow="fold")
    names = dict.fromkeys(name for held in clients.values() for name in held.links)
    for name in names:
        table.add_column(name, justify="right", no_wrap=True)
    for client, held in clients.items():
        cells = (
            f"{held.links.get(name, 0):,}{'*' if name in held.specialities else ' '}"
            for name in names
        )
        table.add_row(client, *cells)
    table.caption = "*: a relation that the client learns to predict; others only carry messages"
    return table
