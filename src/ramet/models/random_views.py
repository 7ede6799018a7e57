"""Random views of a graph, for networks that should agree on all of them."""

from __future__ import annotations

from dataclasses import replace

import torch

from ramet.data.graphs.node_graph import NodeGraph


def random_view(graph: NodeGraph, links: float, features: float) -> NodeGraph:
    """Drop shares of the links and of the features, drawn from PyTorch's global generator."""
    kept = (torch.rand(graph.links) >= links).to(graph.left.device)
    seen = (torch.rand(graph.features.size(1)) >= features).to(graph.features)
    return replace(
        graph,
        features=graph.features * seen,
        left=graph.left[kept],
        right=graph.right[kept],
        kinds=graph.kinds[kept],
        link_values=graph.link_values[kept],
    )
