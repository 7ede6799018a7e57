"""Outputs for nodes and graphs, and scores of links, in batches so that memory stays bounded."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ramet.data import GraphBlock, HeteroGraph, NodeGraph
from ramet.data.graphs.hetero_graph import Links
from ramet.errors import unknown
from ramet.models.link_scorer import LinkScorer

_NODES_AT_ONCE = 2**15
_PAIRS_AT_ONCE = 2**22
_FALLBACK_PAIRS = 2**16
"""Pairs that a network scores at once which has no faster way than one by one."""


@torch.no_grad()
def outputs(model: nn.Module, graph: NodeGraph | GraphBlock) -> Tensor:  # [samples, outputs]
    model.eval()
    if isinstance(graph, NodeGraph):
        found: Tensor = model(graph)
        return found
    return torch.cat([model(graph.cut(graphs)) for graphs in _graph_batches(graph)])


def _graph_batches(block: GraphBlock) -> tuple[Tensor, ...]:
    """Consecutive graphs with a bounded number of nodes; a larger graph is a batch of its own."""
    per_batch = max(_NODES_AT_ONCE // max(int(block.node_starts.diff().max()), 1), 1)
    return torch.split(torch.arange(block.graphs), per_batch)


@dataclass(frozen=True)
class Candidates:
    """The likeliest links of each node: heads and tails count from the first node of their type."""

    heads: Tensor  # [candidates]
    ranks: Tensor  # [candidates] 1 for a head's likeliest tail
    tails: Tensor  # [candidates]
    probabilities: Tensor  # [candidates]


@torch.no_grad()
def candidates(
    model: Any, graph: HeteroGraph, relation: str, top: int = 10, known: bool = False
) -> Candidates:
    """The ``top`` likeliest tails for each head of a relation, without links that are known.

    With ``known``, the links of the graph are among the candidates.
    """
    model.eval()
    kind = _relation(graph, relation)
    ends = graph.relations[kind]
    (first_head, end_head), (first_tail, end_tail) = (
        graph.type_starts[index : index + 2] for index in (ends.head, ends.tail)
    )
    nodes, tails = model.encode(graph), torch.arange(first_tail, end_tail)
    excluded = None if known else _known_links(graph, kind)
    top, parts = min(top, tails.numel()), []
    per_batch = max(_PAIRS_AT_ONCE // max(tails.numel(), 1), 1)
    for heads in torch.split(torch.arange(first_head, end_head), per_batch):
        scores = _all_scores(model, nodes, heads, tails, kind).double()
        if excluded is not None:
            _mask(scores, excluded, heads, first_tail)
        if ends.head == ends.tail:
            scores[torch.arange(heads.numel()), heads - first_tail] = -torch.inf
        best, chosen = scores.topk(top, dim=1)
        row, rank = torch.isfinite(best).nonzero(as_tuple=True)
        parts.append((heads[row] - first_head, rank + 1, chosen[row, rank], best[row, rank]))
    found = [torch.cat(column) for column in zip(*parts, strict=True)]
    return Candidates(found[0], found[1], found[2], found[3].sigmoid())


def _relation(graph: HeteroGraph, name: str) -> int:
    names = [relation.name for relation in graph.relations]
    if name not in names:
        raise unknown("relation", name, names)
    return names.index(name)


def _known_links(graph: HeteroGraph, kind: int) -> tuple[Tensor, Tensor]:
    """Heads, sorted, and tails of a relation's links; between equal types, in both directions."""
    links = graph.links[(graph.links.kinds == kind).nonzero().flatten()]
    heads, tails, relation = links.heads, links.tails, graph.relations[kind]
    if relation.head == relation.tail:
        heads, tails = torch.cat([heads, tails]), torch.cat([tails, heads])
    order = heads.argsort()
    return heads[order], tails[order]


def _mask(scores: Tensor, known: tuple[Tensor, Tensor], heads: Tensor, first_tail: int) -> None:
    """Rule out the known links of these consecutive heads."""
    first, end = torch.searchsorted(known[0], torch.stack([heads[0], heads[-1] + 1])).tolist()
    rows, columns = known[0][first:end] - heads[0], known[1][first:end] - first_tail
    scores[rows, columns] = -torch.inf


def _all_scores(model: Any, nodes: Tensor, heads: Tensor, tails: Tensor, kind: int) -> Tensor:
    """[heads, tails]"""
    if isinstance(model, LinkScorer):
        return model.scores_of_all(nodes, heads, tails, kind)
    return scores_one_by_one(model, nodes, heads, tails, kind)


def scores_one_by_one(
    model: Any, nodes: Tensor, heads: Tensor, tails: Tensor, kind: int
) -> Tensor:  # [heads, tails]
    """The same scores from a network that scores given pairs only."""
    pairs = torch.cartesian_prod(heads, tails)
    chunks = torch.split(pairs, _FALLBACK_PAIRS)
    scored = [
        model.scores(nodes, Links(pair[:, 0], pair[:, 1], torch.full_like(pair[:, 0], kind)))
        for pair in chunks
    ]
    return torch.cat(scored).view(heads.numel(), tails.numel())
