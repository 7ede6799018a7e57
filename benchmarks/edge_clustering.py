"""Link clustering in factored form and as vectors: one step, and a whole epoch of FedLIT.

    python benchmarks/edge_clustering.py            # one step, 10^4 to 4·10^7 links
    python benchmarks/edge_clustering.py epoch      # one epoch, time and memory

CPU time of one thread, one trial each. The last line of the first form is the speed-up of one step
(assign links, move centres) at DBLP-dm's size: 46,582 nodes, 7,097,924 links, d = 64, k = 6. The
second form compares an epoch of FedLIT (clustering, forward, backward) with an epoch of a GCN on
the same graph, and with FedLIT's when links are clustered as vectors.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor
from torch.nn import functional

from ramet.data import NodeGraph
from ramet.data.sources.planted import PlantedKind, planted
from ramet.metrics import peak_memory
from ramet.models.link_kinds import LINKS_AT_ONCE, assign, means, seeded
from ramet.models.multi_channel_gcn import GCN, MultiChannelGCN
from ramet.models.settings import LinkClustering, MultiChannelNetwork
from ramet.models.shape import NodeShape
from ramet.tasks import NodeClassification

WIDTH, KINDS = 64, 6
CLAIMED, LARGEST = (46_582, 7_097_924), (41_671, 39_300_000)
SIZES = (
    (1_000, 10_000),
    (5_000, 100_000),
    (10_000, 300_000),
    (20_000, 1_000_000),
    (30_000, 3_000_000),
    CLAIMED,
    LARGEST,
)


def main() -> None:
    torch.set_num_threads(1)
    if sys.argv[1:] == ["epoch"]:
        for nodes, links in (CLAIMED, LARGEST):
            whole_epoch(nodes, links)
        return
    ratios = {size: both_forms(*size) for size in SIZES}
    print(f"speed-up of one step at {CLAIMED[1]:,} links: {ratios[CLAIMED]:.1f}")


def both_forms(nodes: int, links: int) -> float:
    draw = torch.Generator().manual_seed(0)
    torch.manual_seed(0)
    h = torch.randn(nodes, WIDTH, generator=draw).relu()
    left, right = (
        torch.randint(nodes, (links,), generator=draw, dtype=torch.int32) for _ in range(2)
    )
    centres = seeded(h, left, right, torch.zeros(KINDS, 2 * WIDTH))

    def factored() -> tuple[Tensor, Tensor]:
        kinds = assign(h, left, right, centres)
        return kinds, means(h, left, right, kinds, centres)

    (kinds, moved), ours = timed(factored)
    (direct_kinds, direct_moved), theirs = timed(lambda: direct(h, left, right, centres))
    apart = float((kinds.long() != direct_kinds).double().mean())
    off = float((moved - direct_moved).abs().max())
    print(
        f"{links:>11,} links, {nodes:,} nodes: factored {ours:.2f} s "
        f"({1e6 * ours / links:.3f} s per million), as vectors {theirs:.2f} s, "
        f"ratio {theirs / ours:.1f}; kind differs for {apart:.1e} of links, centres by {off:.1e}"
    )
    return theirs / ours


def direct(h: Tensor, left: Tensor, right: Tensor, centres: Tensor) -> tuple[Tensor, Tensor]:
    """Cluster links as explicit vectors, in chunks."""
    unit = functional.normalize(centres)
    sums, kinds = torch.zeros_like(centres), []
    for start in range(0, left.numel(), LINKS_AT_ONCE):
        chunk = slice(start, start + LINKS_AT_ONCE)
        links = torch.cat([h[left[chunk]], h[right[chunk]]], dim=1)
        kind = (functional.normalize(links) @ unit.T).argmax(dim=1)
        sums.index_add_(0, kind, links)
        kinds.append(kind)
    found = torch.cat(kinds)
    count = torch.bincount(found, minlength=KINDS).unsqueeze(1)
    return found, torch.where(count > 0, sums / count.clamp(min=1), centres)


def whole_epoch(nodes: int, links: int) -> None:
    """Time clustering, forward and backward on one client, and the same for a GCN."""
    kinds = [PlantedKind(links // 4, homophily, 0.9) for homophily in (0.9, 0.05, 0.6, 0.25)]
    graph, drawing = timed(lambda: planted(nodes, 4, kinds).with_trained(torch.arange(nodes)))
    made = f"{graph.links:,} links generated and sorted by row in {drawing:.0f} s"
    print(f"{made}, peak memory {peak_memory() / 2**30:.2f} GB so far")
    shape, task = NodeShape(graph.features.size(1), graph.classes), NodeClassification()

    def epoch(model: torch.nn.Module) -> Callable[[], None]:
        return lambda: task.loss(task.output(model, graph), graph).backward()  # type: ignore[no-untyped-call]

    _, plain = timed(epoch(GCN(shape)))
    print(f"GCN: {plain:.1f} s, peak memory {peak_memory() / 2**30:.2f} GB so far")
    network, clustering = MultiChannelNetwork(kinds=KINDS), LinkClustering(smallest=0)
    _, clustered = timed(epoch(MultiChannelGCN(shape, network, clustering)))
    print(
        f"FedLIT, k = {KINDS}, one clustering step: {clustered:.1f} s "
        f"({1e6 * clustered / graph.links:.2f} s per million links), "
        f"peak memory {peak_memory() / 2**30:.2f} GB"
    )
    _, slow = timed(epoch(AsVectors(shape, network, clustering)))
    print(
        f"ratio to the GCN: {clustered / plain:.2f}; with links as vectors {slow:.1f} s, ratio "
        f"{slow / plain:.2f}"
    )


class AsVectors(MultiChannelGCN):
    """FedLIT's network, with links clustered as vectors."""

    @torch.no_grad()
    def kinds_of(self, graph: NodeGraph, nodes: Tensor) -> Tensor:
        centres = seeded(nodes, graph.left, graph.right, self.kinds.centres)
        kinds, moved = direct(nodes, graph.left, graph.right, centres)
        self.kinds.centres.copy_(moved)
        return kinds.to(torch.uint8)


Made = TypeVar("Made")


def timed(work: Callable[[], Made]) -> tuple[Made, float]:
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


if __name__ == "__main__":
    main()
