"""PyG's objects as a client's data."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from torch_geometric.data import Data

from own_settings import molecules, people
from own_sites import write_toml
from ramet import GraphBlock, NodeGraph, RametError, Reading, StructureEncoding, from_pyg
from ramet.data.own.site import read_site

READING = Reading(Path(), split_seed=3)
TOML = """\
site = "north"
task = "node-classification"
classes = ["0", "1"]
tensors = "graph.pt"

[nodes.node]
features = 3

[edges.link]
features = ["a", "b"]
weight = "edge_weight"
directed = {directed}
"""


def with_values(seed: int) -> Data:
    data = people(seed)
    draw = torch.Generator().manual_seed(seed)
    data.edge_attr = torch.rand(data.num_edges, 2, generator=draw)
    data.edge_weight = torch.rand(data.num_edges, generator=draw)
    return data


@pytest.mark.parametrize("directed", [False, True])
def test_a_graph_is_that_of_a_site_with_the_same_tensors(directed: bool, tmp_path: Path) -> None:
    data = with_values(1)
    file = write_toml(tmp_path, TOML.format(directed=str(directed).lower()))
    torch.save(data.to_dict(), tmp_path / "graph.pt")
    theirs, ours = read_site(file).graph, from_pyg(data, READING, directed=directed).content
    assert isinstance(theirs, NodeGraph)
    assert ours.directed == directed
    assert {n: t.tolist() for n, t in ours.tensors().items()} == {
        n: t.tolist() for n, t in theirs.tensors().items()
    }


def test_links_of_graphs_count_from_their_first_node() -> None:
    """A triangle and a path of two links, each listed in one direction."""
    triangle = Data(
        x=torch.eye(3), edge_index=torch.tensor([[0, 1, 2], [1, 2, 0]]), y=torch.tensor([1])
    )
    path = Data(x=torch.eye(3), edge_index=torch.tensor([[0, 1], [1, 2]]), y=torch.tensor([0]))
    inputs = StructureEncoding(2, 0)
    block = from_pyg([triangle, path] * 4, Reading(Path(), 3, inputs), split=0.25).content
    assert isinstance(block, GraphBlock)
    assert block.columns[:10].tolist() == [1, 2, 0, 2, 0, 1, 1, 0, 2, 1]
    assert block.degrees[:6].tolist() == [2, 2, 2, 1, 2, 1]
    assert block.labels.tolist() == [1, 0] * 4
    assert block.structure[:6].argmax(dim=1).tolist() == [1, 1, 1, 0, 1, 0]


def test_graphs_keep_what_their_links_carry() -> None:
    """A link from node 1 to node 0 is in both rows, with its attribute, and against one of them."""
    one = Data(
        x=torch.ones(2, 1),
        edge_index=torch.tensor([[1], [0]]),
        edge_attr=torch.tensor([[0.5]]),
        y=torch.tensor(0),
    )
    block = from_pyg([one] * 5, READING, directed=True, classes=2).content
    assert block.link_values.directions[:2].tolist() == [1, -1]
    assert block.link_values.attributes[:2].tolist() == [[0.5], [0.5]]
    assert block.classes == 2


@pytest.mark.parametrize("make", [people, molecules])
def test_the_split_has_the_shares_and_every_sample_once(make: Any) -> None:
    held = from_pyg(make(1), READING, split=0.25)
    total = held.content.labels.numel()
    parts = held.split.train, held.split.val, held.split.test
    assert [part.numel() for part in parts] == [total // 2, total // 4, total // 4]
    assert sorted(torch.cat(parts).tolist()) == [*range(total)]
    same, other = (
        from_pyg(make(1), Reading(Path(), seed), split=0.25).split.manifest for seed in (3, 4)
    )
    assert same == held.split.manifest != other


def test_masks_are_the_split_unless_a_share_is_given() -> None:
    data = people(1, masks=True)
    assert from_pyg(data, READING).split.test.tolist() == [*range(30, 40)]
    assert from_pyg(data, READING, split=0.1).split.test.numel() == 4


def test_nodes_without_a_class_are_in_no_part() -> None:
    data = people(1)
    data.y[:10] = -1
    held = from_pyg(data, READING)
    parts = torch.cat([held.split.train, held.split.val, held.split.test])
    assert sorted(parts.tolist()) == [*range(10, 40)]
    assert held.content.nodes == 40


def weighted(data: Data) -> Data:
    data.edge_weight = torch.ones(data.num_edges)
    return data


def changed(**values: Any) -> Data:
    data = people(1)
    for name, value in values.items():
        data[name] = value
    return data


MISTAKES: dict[str, tuple[Any, str]] = {
    "no x": (changed(x=None), r"the data has no x\. Give its nodes features, .* Constant\(\)"),
    "flat x": (changed(x=torch.ones(40)), r"shape \[40\].* write x.unsqueeze\(1\)"),
    "nan": (changed(x=torch.full((40, 2), torch.nan)), "has nan in row 0, column 0. Fill in"),
    "no y": (changed(y=None), "the data has no y. Give each node its class"),
    "short y": (changed(y=torch.zeros(3).long()), r"shape \[3\], but one class for 40 nodes"),
    "negative y": (changed(y=torch.full((40,), -2)), "has -2, but classes count from 0, and -1"),
    "no edges": (changed(edge_index=None), r"no edge_index. Without links, give torch.empty"),
    "edges the other way": (changed(edge_index=torch.ones(7, 2).long()), "must be two rows of"),
    "unknown node": (changed(edge_index=torch.tensor([[0], [40]])), "node 40, but there are 40"),
    "attributes": (changed(edge_attr=torch.ones(7)), "edge_attr of the data has 7 rows, but"),
    "weights": (changed(edge_weight=-torch.ones(160)), "not finite, or a negative weight"),
    "one mask": (changed(train_mask=torch.ones(40).bool()), "no val_mask and no test_mask. Add"),
    "no test": (
        changed(
            train_mask=torch.arange(40) < 20,
            val_mask=torch.arange(40) >= 20,
            test_mask=torch.zeros(40).bool(),
        ),
        "test_mask of the data is all False, so there are no test nodes. Write split=0.2",
    ),
    "two masks": (
        changed(**{f"{part}_mask": torch.arange(40) < 20 for part in ("train", "val", "test")}),
        "node 0 is in two masks",
    ),
    "ten splits": (
        changed(**{f"{p}_mask": torch.ones(40, 10).bool() for p in ("train", "val", "test")}),
        r"has 10 splits. Choose one: mask\[:, 0\]",
    ),
    "few": (people(1, nodes=4), "has 4 nodes with a class, which cannot be split with split=0.2"),
    "no graphs": ([], "is list, but a torch_geometric.data.Data is needed, or a list"),
    "tensors": (torch.ones(3), "is Tensor, but a torch_geometric.data.Data is needed"),
    "widths": (
        [*molecules(1, 9), Data(x=torch.ones(2, 7), edge_index=torch.zeros(2, 0), y=1)],
        "graph 0 of the data has 3 features per node and graph 9 of the data 7",
    ),
    "unlabelled graph": (
        [*molecules(1, 9), Data(x=torch.ones(2, 3), edge_index=torch.zeros(2, 0))],
        "graph 9 of the data has no y. Give it its class",
    ),
    "values of some": (
        [*molecules(1, 9), *map(weighted, molecules(1, 1))],
        "some graphs of the data have edge_attr or edge_weight, and others not",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_says_where_it_is_and_what_to_do(mistake: str) -> None:
    data, message = MISTAKES[mistake]
    with pytest.raises(RametError, match=message):
        from_pyg(data, READING)


def test_a_class_beyond_the_given_number_is_refused() -> None:
    with pytest.raises(RametError, match="has class 1, but classes=1"):
        from_pyg(people(1), READING, classes=1)
