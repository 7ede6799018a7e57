"""Three small generated domains for a first run and for tests, without any download.

In each domain the shape of a graph depends on its class. Each domain has its own feature alphabet,
as different sites would. Labels alternate, so classes are balanced.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import torch

from ramet.data.graphs.graph_block import GraphBlock
from ramet.errors import unknown

GRAPHS = 150
Links = list[tuple[int, int]]


def _rings(rng: np.random.Generator, nodes: int, label: int) -> Links:
    """A ring with chords (class 0) or with missing links (class 1)."""
    ring = [(node, (node + 1) % nodes) for node in range(nodes)]
    if label == 0:
        chords = rng.integers(0, nodes, (nodes // 4, 2))
        return ring + [(int(a), int(b)) for a, b in chords]
    return [link for link in ring if rng.random() > 0.15]


def _trees(rng: np.random.Generator, nodes: int, label: int) -> Links:
    """A tree that grows from any node (class 0) or mostly from its hub (class 1)."""
    hub_share = 0.1 if label == 0 else 0.45
    return [
        (node, 0 if rng.random() < hub_share else int(rng.integers(0, node)))
        for node in range(1, nodes)
    ]


def _blocks(rng: np.random.Generator, nodes: int, label: int) -> Links:
    """One loose community (class 0) or two dense ones with few links between them (class 1)."""
    half = nodes // 2
    inside, across = (0.3, 0.3) if label == 0 else (0.5, 0.08)
    return [
        (a, b)
        for a in range(nodes)
        for b in range(a)
        if rng.random() < (inside if (a < half) == (b < half) else across)
    ]


_DOMAINS: dict[str, tuple[Callable[[np.random.Generator, int, int], Links], int]] = {
    "rings": (_rings, 5),
    "trees": (_trees, 3),
    "blocks": (_blocks, 8),
}
NAMES = tuple(_DOMAINS)


def make(name: str) -> GraphBlock:
    """Generate the graphs of one domain; every call gives the same ones."""
    if name not in _DOMAINS:
        raise unknown("tiny domain", name, _DOMAINS)
    links_of, alphabet = _DOMAINS[name]
    rng = np.random.default_rng([2023, NAMES.index(name)])
    sizes, features, links, first = [], [], [], 0
    for graph in range(GRAPHS):
        nodes, label = int(rng.integers(8, 21)), graph % 2
        links += [(first + a, first + b) for a, b in links_of(rng, nodes, label) if a != b]
        shows_label = rng.random(nodes) < 0.25
        features.append(np.where(shows_label, label, rng.integers(0, alphabet, nodes)))
        sizes.append(nodes)
        first += nodes
    ends = torch.tensor(links)
    return GraphBlock.from_links(
        rows=torch.cat([ends[:, 0], ends[:, 1]]),
        columns=torch.cat([ends[:, 1], ends[:, 0]]),
        node_starts=torch.tensor([0, *np.cumsum(sizes)]),
        features=torch.from_numpy(np.concatenate(features)),
        feature_width=alphabet,
        labels=torch.arange(GRAPHS) % 2,
        name=name,
    )
