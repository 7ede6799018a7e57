"""Links that train, choose and judge, and the pairs that are no links."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ramet.data.graphs.hetero_graph import HeteroGraph, LabelledPairs, Links

Negatives = Literal["random", "2hop"]
_VAL, _TEST = 0.05, 0.10
_HEADS_AT_ONCE = 512


@dataclass(frozen=True)
class HeldOutPairs:
    """The pairs that choose, and those that judge."""

    val: LabelledPairs
    test: LabelledPairs


@dataclass(frozen=True)
class LinkSplit:
    """A graph of training links, and questions about held-out ones."""

    graph: HeteroGraph
    held_out: HeldOutPairs


def split_links(whole: HeteroGraph, seed: int, negatives: Negatives) -> LinkSplit:
    """85:5:10 of each relation's links, and as many pairs that are no links for each held-out part.

    A random negative keeps the head and draws another tail; a 2-hop one draws it among the nodes
    that training links reach from the head in two steps, where there are any.
    """
    draw = torch.Generator().manual_seed(seed)
    place = torch.empty(len(whole.links), dtype=torch.int64)
    for kind in range(len(whole.relations)):
        members = (whole.links.kinds == kind).nonzero().flatten()
        shuffled = members[torch.randperm(members.numel(), generator=draw)]
        test, val = round(_TEST * members.numel()), round(_VAL * members.numel())
        place[shuffled[:test]] = 2
        place[shuffled[test : test + val]] = 1
        place[shuffled[test + val :]] = 0
    train = (place == 0).nonzero().flatten()
    graph = whole.with_links(train, torch.ones(train.numel(), dtype=torch.bool))
    val_links, test_links = (whole.links[(place == part).nonzero().flatten()] for part in (1, 2))
    return with_negatives(graph, whole.links, val_links, test_links, negatives, draw)


def with_negatives(
    graph: HeteroGraph,
    known: Links,
    val: Links,
    test: Links,
    negatives: Negatives,
    draw: torch.Generator,
) -> LinkSplit:
    """Put pairs that are none of the known links beside each held-out link."""

    def questions(links: Links) -> LabelledPairs:
        tails = _others(graph, known, links, draw)
        if negatives == "2hop":
            tails = _two_hops(graph, known, links, tails, draw)
        pairs = Links.joined([links, Links(links.heads, tails, links.kinds)])
        labels = torch.cat([torch.ones(len(links)), torch.zeros(len(links))])
        return LabelledPairs(pairs, labels)

    return LinkSplit(graph, HeldOutPairs(questions(val), questions(test)))


def _others(graph: HeteroGraph, known: Links, links: Links, draw: torch.Generator) -> Tensor:
    """For each link a random tail of its type that its head is not linked to."""
    taken = _keys(known, graph.nodes).sort().values
    tails = graph.random_tails(links.kinds, draw)
    for _ in range(100):  # a head that is linked to all tails keeps a false negative
        keys = _keys(Links(links.heads, tails, links.kinds), graph.nodes)
        wrong = _among(keys, taken).nonzero().flatten()
        if not wrong.numel():
            break
        tails[wrong] = graph.random_tails(links.kinds[wrong], draw)
    return tails


def _two_hops(
    graph: HeteroGraph, known: Links, links: Links, fallback: Tensor, draw: torch.Generator
) -> Tensor:
    from scipy.sparse import csr_array  # every client process imports this file

    flow, nodes = graph.flow, graph.nodes
    ones = np.ones(flow.sources.numel(), np.float32)
    ends = flow.targets.numpy(), flow.sources.numpy()
    steps: Any = csr_array((ones, ends), shape=(nodes, nodes))
    taken = _keys(known, nodes).sort().values
    tails = fallback.clone()
    chances = torch.rand(len(links), generator=draw, dtype=torch.float64)
    for chunk in torch.split(torch.arange(len(links)), _HEADS_AT_ONCE):
        reached = (steps[links.heads[chunk].numpy()] @ steps).tocsr()
        for row, link in enumerate(chunk.tolist()):
            relation = graph.relations[int(links.kinds[link])]
            first, end = graph.type_starts[relation.tail : relation.tail + 2]
            found = torch.from_numpy(
                reached.indices[reached.indptr[row] : reached.indptr[row + 1]].astype(np.int64)
            )
            found = found[(found >= first) & (found < end) & (found != links.heads[link])]
            own = Links(
                links.heads[link].expand_as(found), found, links.kinds[link].expand_as(found)
            )
            found = found[~_among(_keys(own, nodes), taken)].sort().values
            if found.numel():
                tails[link] = found[int(chances[link] * found.numel())]
    return tails


def _among(keys: Tensor, taken: Tensor) -> Tensor:
    """Which of the keys are among the sorted ones."""
    places = torch.searchsorted(taken, keys).clamp(max=taken.numel() - 1)
    return taken[places] == keys


def _keys(links: Links, nodes: int) -> Tensor:
    """A number for each pair and relation."""
    return (links.kinds * nodes + links.heads) * nodes + links.tails
