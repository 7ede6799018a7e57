"""What is computed from a site's links: their ages, and aggregates as columns of nodes."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ramet.data.own.aggregates import aggregated
from ramet.data.own.columns import ColumnValues
from ramet.data.own.content import Content
from ramet.data.own.description import Description
from ramet.data.own.parts import AGE
from ramet.data.own.preparer import Preparer
from ramet.data.own.schema import OF_EDGES
from ramet.data.own.times import ages

_NOTHING = np.empty(0)


def completed(content: Content, description: Description, preparer: Preparer) -> Content:
    """The content with the ages of links, and with aggregates of links, both prepared."""
    return _with_aggregates(_with_ages(content, description, preparer), description, preparer)


def _with_ages(content: Content, description: Description, preparer: Preparer) -> Content:
    edges = dict(content.edges)
    for name, own in content.edges.items():
        part, table = description.edges[name], f"{OF_EDGES}{name}"
        if not part.age or own.times is None:
            continue
        groups = None if content.graphs is None else content.graphs.of_node[own.ends[0]]
        base = preparer.columns[table]
        values = {**base.values, AGE: ages(own.times, groups, own.present)}
        columns = replace(base, parts=part.prepared, values=values)
        edges[name] = replace(own, attributes=preparer.features(table, columns))
    return replace(content, edges=edges)


def _with_aggregates(content: Content, description: Description, preparer: Preparer) -> Content:
    nodes = dict(content.nodes)
    for node_type, own in content.nodes.items():
        declared = description.aggregates(node_type)
        if not declared:
            continue
        base = preparer.columns.get(node_type, ColumnValues({}, {}, own.count))
        values = dict(base.values)
        for name, every in content.edges.items():
            part, edges = description.edges[name], every.there
            given = edges.columns or dict.fromkeys([*part.names, *part.more_in_table], _NOTHING)
            values |= aggregated(name, part, edges.ends, own.count, given)
        parts = {**base.parts, **declared}
        ordered = {name: parts[name] for name in sorted(parts)}
        features = preparer.features(node_type, replace(base, parts=ordered, values=values))
        nodes[node_type] = replace(own, features=features)
    return replace(content, nodes=nodes)
