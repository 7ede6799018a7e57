"""Mini-batches of nodes with sampled neighbours, drawn by PyG's NeighborLoader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ramet.data.graphs.node_graph import NodeGraph
from ramet.errors import RametError


def sample_batches(
    graph: NodeGraph, nodes: Tensor, neighbours: Sequence[int], size: int, order: torch.Generator
) -> Iterator[NodeGraph]:
    """Yield batches of ``size`` nodes with sampled neighbours; ``neighbours`` has a number per hop.

    Only the nodes of the batch itself are marked for training. A sampled link is used in both
    directions.
    """
    from torch_geometric import typing
    from torch_geometric.data import Data
    from torch_geometric.loader import NeighborLoader

    if not (typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE):
        raise RametError(
            "neighbour sampling needs pyg-lib or torch-sparse. Install one of them, or leave out "
            "`sample` to train on the whole graph."
        )
    both_ways = torch.stack(
        [torch.cat([graph.left, graph.right]), torch.cat([graph.right, graph.left])]
    ).long()
    loader = NeighborLoader(
        Data(edge_index=both_ways, num_nodes=graph.nodes),
        num_neighbors=list(neighbours),
        input_nodes=nodes[torch.randperm(nodes.numel(), generator=order)],
        batch_size=size,
    )
    for drawn in loader:
        links = torch.unique(drawn.e_id % max(graph.links, 1))
        yield sampled_subgraph(graph, drawn.n_id, links, drawn.batch_size)


def sampled_subgraph(graph: NodeGraph, nodes: Tensor, links: Tensor, batch: int) -> NodeGraph:
    return replace(graph.part(nodes, links), trained=torch.arange(nodes.numel()) < batch)
