"""Named graphs with hidden kinds of links."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from statistics import fmean

from ramet.data.graphs.node_graph import NodeGraph, node_graph_of
from ramet.data.sources.cache import cached
from ramet.data.sources.hetero_graphs import load_hgb
from ramet.data.sources.link_rules import Direct, Noise, Rule, Shares, latent_graph
from ramet.data.sources.planted import PlantedKind, planted

_FORMAT = 1
_ACM_KINDS = ("cites", "shares an author", "shares a subject", "random")
_PLANTED_HOMOPHILY = (0.9, 0.05, 0.6, 0.25)


@lru_cache(maxsize=4)
def read_planted(nodes: int, links: int, contrast: float, seed: int) -> NodeGraph:
    """Generate a graph with ``links`` of each of four kinds; ``contrast`` 0 makes them alike."""
    middle = fmean(_PLANTED_HOMOPHILY)
    kinds = [
        PlantedKind(links, middle + contrast * (homophily - middle), contrast)
        for homophily in _PLANTED_HOMOPHILY
    ]
    return planted(nodes, 4, kinds, seed=seed)


@lru_cache(maxsize=4)
def read_acm_links(root: Path, subjects: int, noise: int) -> NodeGraph:
    """HGB's ACM papers: citations, shared authors, shared subjects (sampled), random pairs."""
    tensors = cached(
        root,
        "acm-links",
        [_FORMAT, subjects, noise],
        lambda: _make_acm_links(root, subjects, noise).tensors(),
    )
    return node_graph_of(tensors, 3, _ACM_KINDS)


def _make_acm_links(root: Path, subjects: int, noise: int) -> NodeGraph:
    data = load_hgb(root, "acm")
    kinds = (Direct("cite"), Shares("author"), Shares("subject", most=subjects), Noise(noise))
    rules: dict[str, Rule] = dict(zip(_ACM_KINDS, kinds, strict=True))
    return latent_graph(data, "paper", rules)
