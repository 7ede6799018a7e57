"""Split links into train, validation and test, and draw negative pairs."""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ramet.data.client_data import ClientData
from ramet.data.graphs.hetero_graph import HeldOutPairs, HeteroGraph, LabelledPairs, Links

Negatives = Literal["random", "2hop", "2hop-unlinked"]
"""How the negative pairs of held-out links are drawn, see ``with_negatives``."""
LINK_SHARES = (0.85, 0.05, 0.10)
"""Of train, val and test."""
_HEADS_PER_CHUNK = 512
LinkSplit: TypeAlias = ClientData[HeteroGraph, HeldOutPairs]
"""A graph with the training links only, and the held-out pairs."""


def split_links(whole: HeteroGraph, seed: int, negatives: Negatives) -> LinkSplit:
    """Split each relation's links 85:5:10, and add negative pairs to the held-out links."""
    draw = torch.Generator().manual_seed(seed)
    return held_out_links(whole, link_parts(whole, draw), negatives, draw)


def link_parts(whole: HeteroGraph, draw: torch.Generator) -> Tensor:  # [links]
    """The part of each link: 0, 1 or 2 for train, val and test."""
    part_of = torch.empty(len(whole.links), dtype=torch.int64)
    _, val_share, test_share = LINK_SHARES
    for kind in range(len(whole.relations)):
        members = (whole.links.kinds == kind).nonzero().flatten()
        shuffled = members[torch.randperm(members.numel(), generator=draw)]
        test, val = round(test_share * members.numel()), round(val_share * members.numel())
        part_of[shuffled[:test]] = 2
        part_of[shuffled[test : test + val]] = 1
        part_of[shuffled[test + val :]] = 0
    return part_of


def held_out_links(
    whole: HeteroGraph, part_of: Tensor, negatives: Negatives, draw: torch.Generator
) -> LinkSplit:
    """Hold out the links of val and test, and add negative pairs to them."""
    train, val, test = ((part_of == part).nonzero().flatten() for part in range(3))
    graph = whole.with_links(train, torch.ones(train.numel(), dtype=torch.bool))
    held_out = whole.links[val], whole.links[test]
    return with_negatives(graph, whole.links, *held_out, negatives, draw)


def with_negatives(
    graph: HeteroGraph,
    known: Links,
    val: Links,
    test: Links,
    negatives: Negatives,
    draw: torch.Generator,
) -> LinkSplit:
    """Add to each held-out link a negative pair that is not among the known links.

    =================  =======================================================================
    random             another tail of the right type
    2hop               a tail within two training links of the head, or a random one if there is
                       none. It may be linked to the head by another relation or in the other
                       direction
    2hop-unlinked      for test links, as in FedDA's program: a tail within two links, held-out ones
                       among them, that has no link with the head at all. A head without such tails
                       has no negatives. Validation links have random ones
    =================  =======================================================================
    """

    def with_tails(links: Links, negative: Links) -> LabelledPairs:
        labels = torch.cat([torch.ones(len(links)), torch.zeros(len(negative))])
        return LabelledPairs(Links.joined([links, negative]), labels)

    def labelled(links: Links) -> LabelledPairs:
        tails = _random_tails(graph, known, links, draw)
        if negatives == "2hop":
            tails = _two_hops(graph, known, links, tails, draw)
        return with_tails(links, Links(links.heads, tails, links.kinds))

    if negatives == "2hop-unlinked":
        held_out = HeldOutPairs(
            labelled(val), with_tails(test, _unlinked_two_hops(graph, known, test, draw))
        )
    else:
        held_out = HeldOutPairs(labelled(val), labelled(test))
    return ClientData(graph, held_out)


def _random_tails(graph: HeteroGraph, known: Links, links: Links, draw: torch.Generator) -> Tensor:
    """Draw for each link another tail of the same type that its head is not linked to."""
    taken = _keys(known, graph.nodes).sort().values
    tails = graph.random_tails(links.kinds, draw)
    for _ in range(100):  # a head that is linked to all tails gets a false negative
        keys = _keys(Links(links.heads, tails, links.kinds), graph.nodes)
        clashing = _is_in(keys, taken).nonzero().flatten()
        if not clashing.numel():
            break
        tails[clashing] = graph.random_tails(links.kinds[clashing], draw)
    return tails


def _two_hops(
    graph: HeteroGraph, known: Links, links: Links, fallback: Tensor, draw: torch.Generator
) -> Tensor:
    from scipy.sparse import csr_array  # imported here to keep start-up fast

    flow, nodes = graph.flow, graph.nodes
    ones = np.ones(flow.sources.numel(), np.float32)
    ends = flow.targets.numpy(), flow.sources.numpy()
    steps: Any = csr_array((ones, ends), shape=(nodes, nodes))
    taken = _keys(known, nodes).sort().values
    tails = fallback.clone()
    quantiles = torch.rand(len(links), generator=draw, dtype=torch.float64)
    for chunk in torch.split(torch.arange(len(links)), _HEADS_PER_CHUNK):
        reached = (steps[links.heads[chunk].numpy()] @ steps).tocsr()
        for row, link in enumerate(chunk.tolist()):
            relation = graph.relations[int(links.kinds[link])]
            first, end = graph.type_starts[relation.tail : relation.tail + 2]
            candidates = torch.from_numpy(
                reached.indices[reached.indptr[row] : reached.indptr[row + 1]].astype(np.int64)
            )
            candidates = candidates[
                (candidates >= first) & (candidates < end) & (candidates != links.heads[link])
            ]
            pairs = Links(
                links.heads[link].expand_as(candidates),
                candidates,
                links.kinds[link].expand_as(candidates),
            )
            candidates = candidates[~_is_in(_keys(pairs, nodes), taken)].sort().values
            if candidates.numel():
                tails[link] = candidates[int(quantiles[link] * candidates.numel())]
    return tails


def _unlinked_two_hops(
    graph: HeteroGraph, known: Links, links: Links, draw: torch.Generator
) -> Links:
    """A negative pair for each link whose head has a tail two links away and no link with it."""
    from scipy.sparse import csr_array  # imported here to keep start-up fast

    every = torch.arange(graph.nodes)
    starts = torch.cat([known.heads, known.tails, every]).numpy()
    ends = torch.cat([known.tails, known.heads, every]).numpy()
    size = (graph.nodes, graph.nodes)
    linked: Any = _ones(csr_array((np.ones(starts.size, np.float32), (starts, ends)), shape=size))
    tails = torch.full((len(links),), -1)
    quantiles = torch.rand(len(links), generator=draw, dtype=torch.float64).tolist()
    heads, head_of = torch.unique(links.heads, return_inverse=True)
    for begin in range(0, heads.numel(), _HEADS_PER_CHUNK):
        near = linked[heads[begin : begin + _HEADS_PER_CHUNK].numpy()]
        free = _ones(near @ linked) - near  # every node is linked to itself here
        free.eliminate_zeros()
        free.sort_indices()
        here = (head_of >= begin) & (head_of < begin + _HEADS_PER_CHUNK)
        for link in here.nonzero().flatten().tolist():
            row = int(head_of[link]) - begin
            relation = graph.relations[int(links.kinds[link])]
            there = free.indices[free.indptr[row] : free.indptr[row + 1]]
            of_type = graph.type_starts[relation.tail : relation.tail + 2]
            first, end = np.searchsorted(there, of_type)
            if end > first:
                tails[link] = int(there[first + int(quantiles[link] * (end - first))])
    found = tails >= 0
    return Links(links.heads[found], tails[found], links.kinds[found])


def _ones(matrix: Any) -> Any:
    """The matrix with 1 wherever it has an entry."""
    matrix.sum_duplicates()
    matrix.data[:] = 1
    return matrix


def _is_in(keys: Tensor, taken: Tensor) -> Tensor:
    """Test which keys are in ``taken``, which is sorted."""
    positions = torch.searchsorted(taken, keys).clamp(max=taken.numel() - 1)
    return taken[positions] == keys


def _keys(links: Links, nodes: int) -> Tensor:
    """Encode head, tail and relation of each link as one integer."""
    return (links.kinds * nodes + links.heads) * nodes + links.tails
