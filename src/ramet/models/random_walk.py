"""Random walks on a graph for node classification."""

from __future__ import annotations

import torch
from torch import Tensor

from ramet.data.graphs.node_graph import NodeGraph

_STARTS = 1024
"""The number of walks that are followed at once."""


def return_probabilities(graph: NodeGraph, steps: int) -> Tensor:  # [nodes, steps]
    """How likely a walk is back at its start after 1, 2, … steps; a step may also stay."""
    share = 1 / (graph.degrees + 1).to(torch.float32).unsqueeze(1)
    chunks = []
    for starts in torch.split(torch.arange(graph.nodes, device=share.device), _STARTS):
        columns = torch.arange(len(starts), device=share.device)
        now = torch.zeros(graph.nodes, len(starts), device=share.device)
        now[starts, columns] = 1.0
        back = []
        for _ in range(steps):
            leaving = now * share
            now = graph.whole.adjacency @ leaving + leaving
            back.append(now[starts, columns])
        chunks.append(torch.stack(back, dim=1))
    return torch.cat(chunks)
