from __future__ import annotations

from pathlib import Path

import pytest
import torch
from torch_geometric.datasets import TUDataset
from torch_geometric.transforms import AddRandomWalkPE

from ramet.data import GraphBlock, StructureEncoding
from ramet.data.graphs import structure as structure_module
from ramet.data.sources.graph_sets import read_block


def test_degrees_by_hand(two_graphs: GraphBlock) -> None:
    # degrees: triangle with a tail 2 2 3 1, pair 1 1, isolated node 0
    capped = StructureEncoding(degrees=2, walk=0)(two_graphs)
    assert capped.tolist() == [[0, 1], [0, 1], [0, 1], [1, 0], [1, 0], [1, 0], [0, 0]]
    as_one = StructureEncoding(degrees=2, walk=0, isolated_as_one=True)(two_graphs)
    assert as_one[-1].tolist() == [1, 0]


def test_walks_by_hand(two_graphs: GraphBlock) -> None:
    walks = StructureEncoding(degrees=0, walk=3)(two_graphs)
    # T = A D^-1. Node 0 of the triangle with a tail: no return after one step; after two:
    # 1/2 (to 1) * 1/2 + 1/2 (to 2) * 1/3 = 5/12; after three, around the triangle both ways:
    # 2 * 1/2 * 1/2 * 1/3 = 1/6.
    assert walks[0].tolist() == pytest.approx([0, 5 / 12, 1 / 6])
    # A pair returns after every second step, an isolated node never.
    assert walks[4].tolist() == pytest.approx([0, 1, 0])
    assert walks[6].tolist() == [0, 0, 0]


def test_sparse_walks_equal_dense_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    block = read_block("tiny:blocks", StructureEncoding(0, 0), Path())
    dense = StructureEncoding(4, 16)(block)
    monkeypatch.setattr(structure_module, "_DENSE_UP_TO", 0)
    assert torch.allclose(StructureEncoding(4, 16)(block), dense, atol=1e-6)


@pytest.mark.data
@pytest.mark.parametrize(
    "name", ["ENZYMES", "Letter-low", pytest.param("DD", marks=pytest.mark.thorough)]
)
def test_walks_equal_pygs(name: str, data_root: Path) -> None:
    encoding = StructureEncoding(16, 16)
    block = read_block(f"tu:{name}", encoding, data_root)
    dataset = TUDataset(str(data_root / "TUDataset"), name)
    for graph in range(0, len(dataset), len(dataset) // 12):
        first, end = block.node_starts[graph : graph + 2].tolist()
        data = dataset[graph]
        data.num_nodes = end - first
        theirs = AddRandomWalkPE(16)(data).random_walk_pe
        assert torch.allclose(block.structure[first:end, 16:], theirs, atol=2e-6)
