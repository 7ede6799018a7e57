"""Named heterogeneous graphs, split into links that train, choose and judge."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ramet.data.graphs.hetero_graph import (
    HeteroGraph,
    LabelledPairs,
    Links,
    NodeType,
    Relation,
    from_hetero_data,
)
from ramet.data.link_split import HeldOutPairs, LinkSplit, Negatives, split_links, with_negatives
from ramet.errors import RametError

if TYPE_CHECKING:
    from torch_geometric.data import HeteroData


_DESCRIBED = {"acm": "paper", "imdb": "movie"}
_SAID_BY_FEATURES = {"acm": ["term"]}


@lru_cache(maxsize=4)
def read_hgb(root: Path, name: str, seed: int, negatives: Negatives) -> LinkSplit:
    """A graph of HGB's node classification sets, for its links.

    HGB made the features of ACM's authors and subjects from all their papers' words, so these tell
    the links to be found; and a paper's links to terms are its features once more. So one type
    alone has features, as an option of HGB's has it, and ACM has no terms.
    """
    data = load_hgb(root, name)
    return split_links(from_hetero_data(_without_answers(data, name)), seed, negatives)


def load_hgb(root: Path, name: str) -> HeteroData:
    """PyG's copy of one of HGB's graphs for node classification, downloaded if need be."""
    from torch_geometric.datasets import HGBDataset

    try:
        return HGBDataset(str(root / "HGB"), name)[0]
    except OSError as error:
        raise RametError(
            f"HGB's {name} is not in {root / 'HGB'} and could not be downloaded ({error}). "
            "Connect to the network, or name the folder that has it with --data."
        ) from error


def _without_answers(data: HeteroData, name: str) -> HeteroData:
    kept = [kind for kind in data.node_types if kind not in _SAID_BY_FEATURES.get(name, ())]
    data = data.node_type_subgraph(kept)
    for kind in kept:
        if kind != _DESCRIBED[name]:
            data[kind].num_nodes = data[kind].num_nodes
            data[kind].pop("x", None)
    return data


@lru_cache(maxsize=4)
def read_amazon(root: Path, seed: int, negatives: Negatives) -> LinkSplit:
    """GATNE's Amazon: products viewed together and bought together, split as GATNE splits them.

    Its features are not among GATNE's files here, so every product has a learned vector.
    """
    parts = {part: _gatne(root / "amazon" / f"{part}.txt") for part in ("train", "valid", "test")}
    numbers = torch.from_numpy(
        np.unique(np.concatenate([rows[:, 1:3].ravel() for rows in parts.values()]))
    )

    def links(rows: np.ndarray) -> Links:
        told = torch.from_numpy(rows)
        heads, tails = (torch.searchsorted(numbers, told[:, c].contiguous()) for c in (1, 2))
        return Links(heads, tails, told[:, 0] - 1)

    train = links(parts["train"])
    graph = HeteroGraph(
        types=(NodeType("product", numbers.numel()),),
        relations=(Relation("viewed", 0, 0), Relation("bought", 0, 0)),
        links=train,
        learned=torch.ones(len(train), dtype=torch.bool),
    )
    if negatives == "random":
        asked = (
            LabelledPairs(links(rows), torch.from_numpy(rows[:, 3]).float())
            for rows in (parts["valid"], parts["test"])
        )
        return LinkSplit(graph, HeldOutPairs(*asked))
    val, test = (links(rows[rows[:, 3] == 1]) for rows in (parts["valid"], parts["test"]))
    known, draw = Links.joined([train, val, test]), torch.Generator().manual_seed(seed)
    return with_negatives(graph, known, val, test, negatives, draw)


def _gatne(path: Path) -> np.ndarray:
    try:
        return np.loadtxt(path, dtype=np.int64, ndmin=2)
    except OSError as error:
        raise RametError(
            f"GATNE's Amazon is not in {path.parent}. Put its train.txt, valid.txt and test.txt "
            "there (github.com/THUDM/GATNE, data/amazon), or name another folder with --data."
        ) from error


@lru_cache(maxsize=4)
def read_planted_hetero(
    nodes: int, relations: int, links: int, graph_seed: int, seed: int, negatives: Negatives
) -> LinkSplit:
    """Two node types in hidden groups; each relation joins groups by a rule of its own."""
    draw = torch.Generator().manual_seed(graph_seed)
    groups = 4
    own = torch.randint(groups, (2 * nodes,), generator=draw)
    means = torch.randn(groups, 8, generator=draw)
    features = means[own] + 0.5 * torch.randn(2 * nodes, 8, generator=draw)
    types = (NodeType("a", nodes, features[:nodes]), NodeType("b", nodes, features[nodes:]))
    parts, kinds = [], []
    for place in range(relations):
        head, tail = [(0, 0), (0, 1), (1, 1)][place % 3]
        kinds.append(Relation(f"rule-{place}", head, tail))
        parts.append(_planted_links(own, nodes, kinds[-1], place, links, draw))
    both = Links.joined(parts)
    whole = HeteroGraph(types, tuple(kinds), both, torch.ones(len(both), dtype=torch.bool))
    return split_links(whole, seed, negatives)


def _planted_links(
    groups: Tensor, nodes: int, relation: Relation, place: int, count: int, draw: torch.Generator
) -> Links:
    """Pairs whose groups differ by the relation's place, each once."""
    heads = relation.head * nodes + torch.randint(nodes, (8 * count,), generator=draw)
    tails = relation.tail * nodes + torch.randint(nodes, (8 * count,), generator=draw)
    fitting = ((groups[heads] + place) % 4 == groups[tails]) & (heads != tails)
    pairs = torch.unique(torch.stack([heads, tails])[:, fitting], dim=1)
    chosen = torch.randperm(pairs.size(1), generator=draw)[:count].sort().values
    heads, tails = pairs[:, chosen]
    return Links(heads, tails, torch.full_like(heads, place))
