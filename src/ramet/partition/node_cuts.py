"""Ways to distribute the nodes of one graph over clients, determined by the graph and a seed."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ramet.data import NodeGraph
from ramet.errors import RametError
from ramet.partition.cuts import ByLabel

NodeCut = Literal["louvain", "metis", "overlapping", "label"]
"""``louvain``: whole communities; ``metis``: parts of equal size with few links between them;
``overlapping``: five clients per METIS part, each with a random half of its nodes, as in FED-PUB;
``label``: classes drawn from a Dirichlet distribution, whatever the links."""
_CLIENTS_PER_PART = 5
_OVERLAP = 0.5


def members(cut: NodeCut, graph: NodeGraph, clients: int, seed: int, alpha: float) -> list[Tensor]:
    """The nodes of each client, in ascending order."""
    if cut == "louvain":
        return _grouped(pack(communities(graph, seed), clients, graph.nodes), clients)
    if cut == "metis":
        return _grouped(_metis(graph, clients, seed), clients)
    if cut == "overlapping":
        return _overlapping(graph, clients, seed)
    return ByLabel(clients, alpha)(graph.labels, seed)


def largest_component(graph: NodeGraph) -> Tensor:
    """The nodes of the largest connected component, in ascending order."""
    import networkx  # slow to import

    largest = max(networkx.connected_components(_links(graph)), key=len)
    return torch.tensor(sorted(largest))


def communities(graph: NodeGraph, seed: int) -> list[list[int]]:
    """Louvain communities of the nodes, the largest first."""
    import networkx  # slow to import

    groups = networkx.community.louvain_communities(_links(graph), seed=seed)
    return sorted((sorted(members) for members in groups), key=lambda m: (-len(m), m[0]))


def _links(graph: NodeGraph) -> Any:
    import networkx  # slow to import

    links = networkx.Graph()
    links.add_nodes_from(range(graph.nodes))
    links.add_edges_from(zip(graph.left.tolist(), graph.right.tolist(), strict=True))
    return links


def pack(groups: Iterable[list[int]], parts: int, nodes: int) -> Tensor:
    """[nodes] part of each node: each group goes as a whole into the smallest part so far."""
    owners = torch.full((nodes,), -1, dtype=torch.int64)
    sizes = [0] * parts
    for group in groups:
        part = sizes.index(min(sizes))
        owners[group] = part
        sizes[part] += len(group)
    if min(sizes) < 1:
        raise RametError(
            f"the graph has too few communities for {parts} clients. Use fewer clients."
        )
    return owners


def _metis(graph: NodeGraph, parts: int, seed: int) -> Tensor:  # [nodes] part of each node
    try:
        import pymetis
    except ImportError as error:
        raise RametError("partition=metis needs pymetis: pip install 'ramet[metis]'.") from error
    links = pymetis.CSRAdjacency(graph.whole.row_starts.numpy(), graph.whole.columns.numpy())
    options = pymetis.Options(seed=seed)
    found = pymetis.part_graph(parts, links, options=options, recursive=False)
    return torch.as_tensor(np.asarray(found.vertex_part), dtype=torch.int64)


def _overlapping(graph: NodeGraph, clients: int, seed: int) -> list[Tensor]:
    if clients % _CLIENTS_PER_PART:
        raise RametError(
            f"partition=overlapping has {_CLIENTS_PER_PART} clients per part of the graph, so the "
            f"number of clients must be a multiple of {_CLIENTS_PER_PART}, not {clients}."
        )
    count = clients // _CLIENTS_PER_PART
    parts = _grouped(_metis(graph, count, seed), count) if count > 1 else [_all(graph)]
    draw = torch.Generator().manual_seed(seed)
    return [
        part[torch.randperm(part.numel(), generator=draw)[: round(_OVERLAP * part.numel())]]
        .sort()
        .values
        for part in parts
        for _ in range(_CLIENTS_PER_PART)
    ]


def _all(graph: NodeGraph) -> Tensor:
    return torch.arange(graph.nodes)


def _grouped(owners: Tensor, clients: int) -> list[Tensor]:
    return [(owners == number).nonzero().flatten() for number in range(clients)]
