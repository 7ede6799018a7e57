"""Named heterogeneous graphs, with links split into train, validation and test."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Literal, TypeAlias

import numpy as np
import torch
from torch import Tensor

from ramet.data.client_data import ClientData
from ramet.data.graphs.hetero_graph import (
    HeldOutPairs,
    HeteroGraph,
    LabelledPairs,
    Links,
    NodeType,
    Relation,
    from_hetero_data,
)
from ramet.data.link_split import LinkSplit, Negatives, split_links, with_negatives
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


AmazonSplit: TypeAlias = Literal["gatne", "fedda"]
_VALIDATION = 0.1
"""The share of further links of a head that FedDA's program holds out for validation."""


@lru_cache(maxsize=4)
def read_amazon(
    root: Path, seed: int, negatives: Negatives, split: AmazonSplit = "gatne"
) -> LinkSplit:
    """Read Amazon: products viewed together and bought together, with GATNE's split or FedDA's.

    Product features are not used, so every product gets a learned embedding. GATNE's random
    negatives are part of its files.
    """
    if split == "fedda":
        return _fedda_amazon(root / "fedda_amazon", seed, negatives)
    parts = {part: _gatne(root / "amazon" / f"{part}.txt") for part in ("train", "valid", "test")}
    product_ids = torch.from_numpy(
        np.unique(np.concatenate([rows[:, 1:3].ravel() for rows in parts.values()]))
    )

    def links(rows: np.ndarray) -> Links:
        table = torch.from_numpy(rows)
        heads, tails = (torch.searchsorted(product_ids, table[:, c].contiguous()) for c in (1, 2))
        return Links(heads, tails, table[:, 0] - 1)

    train = links(parts["train"])
    graph = _products(product_ids.numel(), train)
    if negatives == "random":
        held_out = (
            LabelledPairs(links(rows), torch.from_numpy(rows[:, 3]).float())
            for rows in (parts["valid"], parts["test"])
        )
        return ClientData(graph, HeldOutPairs(*held_out))
    val, test = (links(rows[rows[:, 3] == 1]) for rows in (parts["valid"], parts["test"]))
    known, draw = Links.joined([train, val, test]), torch.Generator().manual_seed(seed)
    return with_negatives(graph, known, val, test, negatives, draw)


def _products(count: int, train: Links) -> HeteroGraph:
    return HeteroGraph(
        types=(NodeType("product", count),),
        relations=(Relation("viewed", 0, 0), Relation("bought", 0, 0)),
        links=train,
        learned=torch.ones(len(train), dtype=torch.bool),
    )


def _fedda_amazon(folder: Path, seed: int, negatives: Negatives) -> LinkSplit:
    """FedDA's test links. Validation links are drawn as in its program, here from the split seed.

    Per relation, the first link of each head is for training, and a tenth of the others is held
    out.
    """
    rest, test = (_fedda_links(folder / name) for name in ("link.dat", "link.dat.test"))
    draw = torch.Generator().manual_seed(seed)
    order = torch.from_numpy(np.lexsort((rest.tails, rest.heads, rest.kinds)))
    rest = rest[order]
    first = torch.ones(len(rest), dtype=torch.bool)
    first[1:] = (rest.heads[1:] != rest.heads[:-1]) | (rest.kinds[1:] != rest.kinds[:-1])
    held_out = ~first & (torch.rand(len(rest), generator=draw) < _VALIDATION)
    train, val = (rest[chosen.nonzero().flatten()] for chosen in (~held_out, held_out))
    known = Links.joined([rest, test])
    count = int(torch.cat([known.heads, known.tails]).max()) + 1
    return with_negatives(_products(count, train), known, val, test, negatives, draw)


def _fedda_links(path: Path) -> Links:
    try:
        rows = torch.from_numpy(np.loadtxt(path, ndmin=2).astype(np.int64))
    except OSError as error:
        raise RametError(
            f"FedDA's split of Amazon is not in {path.parent}. Put its link.dat and link.dat.test "
            "there (github.com/dongzizhu/FedDA, data_Amazon/Amazon_0), point --data to another "
            "folder, or use split=gatne."
        ) from error
    heads, tails, kinds = (rows[:, column].contiguous() for column in range(3))
    return Links(heads, tails, kinds)


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
