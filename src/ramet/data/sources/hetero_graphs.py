"""Named heterogeneous graphs, with links split into train, validation and test."""

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


_TYPE_WITH_FEATURES = {"acm": "paper", "imdb": "movie"}
_REDUNDANT_TYPES = {"acm": ["term"]}


@lru_cache(maxsize=4)
def read_hgb(root: Path, name: str, seed: int, negatives: Negatives) -> LinkSplit:
    """Read a graph of HGB's node classification sets, for link prediction.

    HGB built the features of ACM's authors and subjects from the words of all their papers, so
    these features reveal the links to predict. A paper's links to terms repeat its features. So
    only one node type keeps its features, which HGB offers as an option, and ACM has no terms.
    """
    data = load_hgb(root, name)
    return split_links(from_hetero_data(_without_leaks(data, name)), seed, negatives)


def load_hgb(root: Path, name: str) -> HeteroData:
    """Load one of HGB's node classification graphs through PyG, which downloads it if necessary."""
    from torch_geometric.datasets import HGBDataset

    try:
        return HGBDataset(str(root / "HGB"), name)[0]
    except OSError as error:
        raise RametError(
            f"HGB's {name} is not in {root / 'HGB'} and could not be downloaded ({error}). "
            "Connect to the network, or point --data to a folder that has it."
        ) from error


def _without_leaks(data: HeteroData, name: str) -> HeteroData:
    node_types = [kind for kind in data.node_types if kind not in _REDUNDANT_TYPES.get(name, ())]
    data = data.node_type_subgraph(node_types)
    for kind in node_types:
        if kind != _TYPE_WITH_FEATURES[name]:
            data[kind].num_nodes = data[kind].num_nodes
            data[kind].pop("x", None)
    return data


@lru_cache(maxsize=4)
def read_amazon(root: Path, seed: int, negatives: Negatives) -> LinkSplit:
    """Read GATNE's Amazon: products viewed together and bought together, with GATNE's split.

    Product features are not used, so every product gets a learned embedding.
    """
    parts = {part: _gatne(root / "amazon" / f"{part}.txt") for part in ("train", "valid", "test")}
    product_ids = torch.from_numpy(
        np.unique(np.concatenate([rows[:, 1:3].ravel() for rows in parts.values()]))
    )

    def links(rows: np.ndarray) -> Links:
        table = torch.from_numpy(rows)
        heads, tails = (torch.searchsorted(product_ids, table[:, c].contiguous()) for c in (1, 2))
        return Links(heads, tails, table[:, 0] - 1)

    train = links(parts["train"])
    graph = HeteroGraph(
        types=(NodeType("product", product_ids.numel()),),
        relations=(Relation("viewed", 0, 0), Relation("bought", 0, 0)),
        links=train,
        learned=torch.ones(len(train), dtype=torch.bool),
    )
    if negatives == "random":
        held_out = (
            LabelledPairs(links(rows), torch.from_numpy(rows[:, 3]).float())
            for rows in (parts["valid"], parts["test"])
        )
        return LinkSplit(graph, HeldOutPairs(*held_out))
    val, test = (links(rows[rows[:, 3] == 1]) for rows in (parts["valid"], parts["test"]))
    known, draw = Links.joined([train, val, test]), torch.Generator().manual_seed(seed)
    return with_negatives(graph, known, val, test, negatives, draw)


def _gatne(path: Path) -> np.ndarray:
    try:
        return np.loadtxt(path, dtype=np.int64, ndmin=2)
    except OSError as error:
        raise RametError(
            f"GATNE's Amazon is not in {path.parent}. Put its train.txt, valid.txt and test.txt "
            "there (github.com/THUDM/GATNE, data/amazon), or point --data to another folder."
        ) from error


@lru_cache(maxsize=4)
def read_planted_hetero(
    nodes: int, relations: int, links: int, graph_seed: int, seed: int, negatives: Negatives
) -> LinkSplit:
    """Generate two node types in hidden groups; each relation joins groups by its own rule."""
    draw = torch.Generator().manual_seed(graph_seed)
    groups = 4
    group_of = torch.randint(groups, (2 * nodes,), generator=draw)
    means = torch.randn(groups, 8, generator=draw)
    features = means[group_of] + 0.5 * torch.randn(2 * nodes, 8, generator=draw)
    types = (NodeType("a", nodes, features[:nodes]), NodeType("b", nodes, features[nodes:]))
    parts, kinds = [], []
    for index in range(relations):
        head, tail = [(0, 0), (0, 1), (1, 1)][index % 3]
        kinds.append(Relation(f"rule-{index}", head, tail))
        parts.append(_planted_links(group_of, nodes, kinds[-1], index, links, draw))
    joined = Links.joined(parts)
    whole = HeteroGraph(types, tuple(kinds), joined, torch.ones(len(joined), dtype=torch.bool))
    return split_links(whole, seed, negatives)


def _planted_links(
    groups: Tensor, nodes: int, relation: Relation, index: int, count: int, draw: torch.Generator
) -> Links:
    """Draw pairs without duplicates whose groups differ by the relation's index."""
    heads = relation.head * nodes + torch.randint(nodes, (8 * count,), generator=draw)
    tails = relation.tail * nodes + torch.randint(nodes, (8 * count,), generator=draw)
    matching = ((groups[heads] + index) % 4 == groups[tails]) & (heads != tails)
    pairs = torch.unique(torch.stack([heads, tails])[:, matching], dim=1)
    chosen = torch.randperm(pairs.size(1), generator=draw)[:count].sort().values
    heads, tails = pairs[:, chosen]
    return Links(heads, tails, torch.full_like(heads, index))
