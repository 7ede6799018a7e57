"""Split links into train, validation and test, and draw negative pairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ramet.data.graphs.hetero_graph import HeteroGraph, LabelledPairs, Links

Negatives = Literal["random", "2hop"]
_VAL, _TEST = 0.05, 0.10
_HEADS_PER_CHUNK = 512


@dataclass(frozen=True)
class HeldOutPairs:
    """Validation and test pairs."""

    val: LabelledPairs
    test: LabelledPairs


@dataclass(frozen=True)
class LinkSplit:
    """A graph with the training links only, and the held-out pairs."""

    graph: HeteroGraph
    held_out: HeldOutPairs


def split_links(whole: HeteroGraph, seed: int, negatives: Negatives) -> LinkSplit:
    """Split each relation's links 85:5:10, and add a negative pair for each held-out link.

    A random negative keeps the head of the link and draws another tail. A 2-hop negative draws the
    tail among the nodes within two training links of the head. If there are none, it falls back to
    a random tail.
    """
    draw = torch.Generator().manual_seed(seed)
    part_of = torch.empty(len(whole.links), dtype=torch.int64)
    for kind in range(len(whole.relations)):
        members = (whole.links.kinds == kind).nonzero().flatten()
        shuffled = members[torch.randperm(members.numel(), generator=draw)]
        test, val = round(_TEST * members.numel()), round(_VAL * members.numel())
        part_of[shuffled[:test]] = 2
        part_of[shuffled[test : test + val]] = 1
        part_of[shuffled[test + val :]] = 0
    train = (part_of == 0).nonzero().flatten()
    graph = whole.with_links(train, torch.ones(train.numel(), dtype=torch.bool))
    val_links, test_links = (whole.links[(part_of == part).nonzero().flatten()] for part in (1, 2))
    return with_negatives(graph, whole.links, val_links, test_links, negatives, draw)


def with_negatives(
    graph: HeteroGraph,
    known: Links,
    val: Links,
    test: Links,
    negatives: Negatives,
    draw: torch.Generator,
) -> LinkSplit:
    """Add to each held-out link a negative pair that is not among the known links."""

    def labelled(links: Links) -> LabelledPairs:
        tails = _random_tails(graph, known, links, draw)
        if negatives == "2hop":
            tails = _two_hops(graph, known, links, tails, draw)
        pairs = Links.joined([links, Links(links.heads, tails, links.kinds)])
        labels = torch.cat([torch.ones(len(links)), torch.zeros(len(links))])
        return LabelledPairs(pairs, labels)

    return LinkSplit(graph, HeldOutPairs(labelled(val), labelled(test)))


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


def _is_in(keys: Tensor, taken: Tensor) -> Tensor:
    """Test which keys are in ``taken``, which is sorted."""
    positions = torch.searchsorted(taken, keys).clamp(max=taken.numel() - 1)
    return taken[positions] == keys


def _keys(links: Links, nodes: int) -> Tensor:
    """Encode head, tail and relation of each link as one integer."""
    return (links.kinds * nodes + links.heads) * nodes + links.tails
