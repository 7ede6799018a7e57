"""What of a site's files the graph does not have, in words for the site itself."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ramet.data.graphs.hetero_graph import HeteroGraph
from ramet.data.graphs.node_graph import NodeGraph
from ramet.data.own.building import Graph
from ramet.data.own.content import Content
from ramet.data.own.description import Description
from ramet.data.own.problems import Problems, shown


def unused_columns(problems: Problems) -> Iterator[str]:
    for file, columns in problems.unused.items():
        verb = "is" if len(columns) == 1 else "are"
        yield f"{file}: {', '.join(map(shown, columns))} {verb} not used"


def merged_links(content: Content, description: Description, graph: Graph) -> Iterator[str]:
    """Where fewer links are left than the files have; for link prediction that is a problem."""
    if isinstance(graph, HeteroGraph):
        return
    for kind, (name, edges) in enumerate(sorted(content.edges.items())):
        links = graph.links // 2
        if isinstance(graph, NodeGraph):
            links = int((graph.kinds == kind).sum())
        rows, directed = edges.ends.size(1), description.edges[name].directed
        loops = int((edges.ends[0] == edges.ends[1]).sum())
        once = rows - links - loops
        in_both_ways = not directed and 2 * links == rows and _in_both_ways(edges.ends)
        if links == rows or in_both_ways:
            continue
        repeated = f"{once:,} repeat a link in {'its' if directed else 'either'} direction"
        yield (
            f"{name}: {rows:,} rows give {links:,} links. {repeated}, {loops:,} link a node to "
            "itself; neither counts"
        )


def _in_both_ways(ends: Tensor) -> bool:
    """Whether each link is listed in both directions, equally often."""
    forward = ends[:, ends[0] < ends[1]]
    backward = ends[:, ends[0] > ends[1]].flip(0)
    if forward.size(1) != backward.size(1):
        return False
    return torch.equal(*(torch.unique(one, dim=1) for one in (forward, backward)))
