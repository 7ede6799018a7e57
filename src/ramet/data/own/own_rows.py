"""Which rows are a site's own in this period, and how many links and nodes they have."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from ramet.data.own.columns import Values
from ramet.data.own.content import Content
from ramet.data.own.description import Description
from ramet.data.own.periods import ByTime, before
from ramet.data.own.schema import OF_EDGES

OF_GRAPHS = "graphs"


@dataclass(frozen=True)
class OwnRows:
    """Rows that are neither of an earlier period nor only an id; they are the first of a table."""

    count: Mapping[str, int] = field(default_factory=dict)
    """By table."""
    links: Mapping[str, Mapping[str, Values]] = field(default_factory=dict)
    """By node type, how many links each node has, by edge type and direction; if samples are split
    by time, until the end of training. Under `OF_GRAPHS`, how many nodes each graph has."""

    @staticmethod
    def of(content: Content, description: Description, by_time: ByTime | None) -> OwnRows:
        nodes = {
            name: one.count - one.stubs if one.new is None else one.new
            for name, one in content.nodes.items()
        }
        edges = {
            f"{OF_EDGES}{name}": one.count if one.new is None else one.new
            for name, one in content.edges.items()
        }
        return OwnRows({**nodes, **edges}, _links(content, description, by_time))


def _links(
    content: Content, description: Description, by_time: ByTime | None
) -> dict[str, dict[str, Values]]:
    found: dict[str, dict[str, Values]] = {name: {} for name in content.nodes}

    def count(node_type: str, name: str, ends: Values) -> None:
        found[node_type][name] = np.bincount(ends, minlength=content.nodes[node_type].count)

    cut = by_time is not None and content.graphs is None and not by_time.times_of_links
    for name, edges in content.edges.items():
        ends = edges.ends
        if cut and by_time is not None:
            ends = ends[:, before(content, description, name, by_time.periods.ends[0])]
        (head, tail), (sources, targets) = description.ends(name), ends.numpy()
        if head == tail and not description.edges[name].directed:
            count(head, f"{name} links", np.concatenate([sources, targets]))
        else:
            count(head, f"{name} out", sources)
            count(tail, f"{name} in", targets)
    if content.graphs is not None:
        of_node, graphs = content.graphs.of_node.numpy(), len(content.graphs.names)
        found[OF_GRAPHS] = {"nodes": np.bincount(of_node, minlength=graphs)}
    return found
