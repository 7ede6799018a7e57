from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch_geometric.data import Batch as PyGBatch
from torch_geometric.datasets import TUDataset
from torch_geometric.transforms import OneHotDegree

from ramet.data import GraphBlock, StructureEncoding
from ramet.data.sources.graph_sets import read_block
from ramet.errors import RametError


def test_cut_by_hand(two_graphs: GraphBlock) -> None:
    batch = two_graphs.cut(torch.tensor([1, 0]))
    assert batch.labels.tolist() == [1, 0]
    assert batch.graph.tolist() == [0, 0, 0, 1, 1, 1, 1]
    assert batch.features.tolist() == [1, 0, 1, 0, 1, 1, 0]
    assert batch.whole.degrees.tolist() == [1, 1, 0, 2, 2, 3, 1]
    assert batch.row_starts.tolist() == [0, 1, 2, 2, 4, 6, 9, 10]
    assert batch.columns.tolist() == [1, 0, 4, 5, 3, 5, 3, 4, 6, 5]
    dense = batch.whole.adjacency.to_dense()
    assert torch.equal(dense, dense.t())
    assert dense.sum() == 10


def test_a_cut_reads_the_columns_where_they_are_now(two_graphs: GraphBlock) -> None:
    block = replace(two_graphs, columns=two_graphs.columns.clone())
    before = block.cut(torch.tensor([1, 0])).columns
    # moves them, as sending the block to another process does
    block.columns.share_memory_()  # type: ignore[no-untyped-call]
    block.columns.add_(1)
    assert torch.equal(block.cut(torch.tensor([1, 0])).columns, before + 1)


def test_pyg_attributes_by_hand(two_graphs: GraphBlock) -> None:
    batch = two_graphs.cut(torch.tensor([1, 0]))
    assert batch.x.tolist() == [[0, 1], [1, 0], [0, 1], [1, 0], [0, 1], [0, 1], [1, 0]]
    assert batch.x.dtype == torch.float32
    assert batch.edge_index.tolist() == [
        [1, 0, 4, 5, 3, 5, 3, 4, 6, 5],
        [0, 1, 3, 3, 4, 4, 5, 5, 5, 6],
    ]
    assert batch.batch.tolist() == [0, 0, 0, 1, 1, 1, 1]
    numbers = replace(batch, features=torch.rand(7, 3))
    assert numbers.x is numbers.features


def test_one_way_links_are_refused() -> None:
    with pytest.raises(RametError, match=r"one-way links.*ToUndirected"):
        GraphBlock.from_links(
            rows=torch.tensor([0]),
            columns=torch.tensor([1]),
            node_starts=torch.tensor([0, 2]),
            features=torch.tensor([0, 0]),
            feature_width=1,
            labels=torch.tensor([0]),
            name="arrows",
        )


@pytest.mark.data
@pytest.mark.parametrize("name", ["MUTAG", "ENZYMES", "Letter-high", "IMDB-BINARY"])
def test_a_batch_equals_pygs(name: str, data_root: object) -> None:
    block = read_block(f"tu:{name}", StructureEncoding(0, 0), data_root)  # type: ignore[arg-type]
    dataset = TUDataset(f"{data_root}/TUDataset", name, use_node_attr=name.startswith("Letter"))
    if name.startswith("IMDB"):
        dataset.transform = OneHotDegree(135)
    chosen = torch.randperm(len(dataset), generator=torch.Generator().manual_seed(1))[:40]
    ours, theirs = block.cut(chosen), PyGBatch.from_data_list([dataset[i] for i in chosen.tolist()])
    assert torch.equal(ours.labels, theirs.y)
    assert torch.equal(ours.graph, theirs.batch)
    assert torch.equal(ours.x, theirs.x)
    assert set(map(tuple, ours.edge_index.t().tolist())) == set(
        map(tuple, theirs.edge_index.t().tolist())
    )
    assert ours.edge_index.size(1) == theirs.edge_index.size(1)
