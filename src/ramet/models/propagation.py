"""Propagation of labels over a graph's links, without parameters."""

from __future__ import annotations

from torch import Tensor

from ramet.data.graphs.node_graph import NodeGraph


def propagated(graph: NodeGraph, labels: Tensor, trained: Tensor, steps: int) -> Tensor:
    """[nodes, classes] labels after some steps over the normalised links with self loops."""
    scale, now = graph.gcn_scale, labels
    for _ in range(steps):
        scaled = scale * now
        now = 0.5 * scale * (graph.whole.adjacency @ scaled + scaled) + 0.5 * labels
        now = now.index_add(0, trained, labels[trained])
    return now
