from __future__ import annotations

from pathlib import Path

import networkx as nx
import numpy as np
import pytest
import torch

from ramet.data import GraphBlock, StructureEncoding
from ramet.data.graphs import portrait as portrait_module
from ramet.data.graphs.portrait import clustering_coefficients, divergences, portrait
from ramet.data.sources.graph_sets import read_block


@pytest.mark.parametrize("dense_up_to", [512, 0])
@pytest.mark.parametrize("name", ["blocks", "trees", "rings"])
def test_clustering_equals_networkx(
    name: str, dense_up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portrait_module, "_DENSE_UP_TO", dense_up_to)
    block = read_block(f"tiny:{name}", StructureEncoding(0, 0), Path())
    batch = block.cut(torch.arange(12))
    graph = nx.Graph()
    graph.add_nodes_from(range(batch.nodes))
    graph.add_edges_from(zip(batch.whole.rows.tolist(), batch.columns.tolist(), strict=True))
    expected = nx.clustering(graph)
    actual = clustering_coefficients(batch)
    assert actual.tolist() == pytest.approx([expected[node] for node in range(batch.nodes)])


def test_a_portrait_by_hand(two_graphs: GraphBlock) -> None:
    summary = portrait(two_graphs, torch.tensor([0, 1]))
    # links 0-1 1-2 0-2 2-3 4-5, features 0 1 1 0 1 0 1: only 1-2 joins equal features
    assert summary.feature[[10, 19]] == pytest.approx([0.8, 0.2])
    # degrees 2 2 3 1 1 1 0 of 7 nodes, half of the distribution
    assert summary.structure[:4] == pytest.approx(np.array([1, 3, 2, 1]) / 14)
    # the triangle's corners: twice 1, once 1/3; the others 0
    clustering = summary.structure[-20:]
    assert clustering[[0, 6, 19]] == pytest.approx(np.array([4, 1, 2]) / 14)
    assert summary.structure.sum() == pytest.approx(1)


def test_divergence_is_0_for_equal_and_1_for_disjoint_distributions() -> None:
    matrix = divergences([np.array([1.0, 0, 0]), np.array([1.0, 0, 0]), np.array([0, 0.5, 0.5])])
    assert matrix == pytest.approx(np.array([[0, 0, 1], [0, 0, 1], [1, 1, 0]]))


def test_proteins_differ_in_features_and_social_networks_in_structure(
    data_root: Path,
) -> None:
    """The pattern in Fig. 1 of FedDense."""
    blocks = [
        read_block(f"tu:{name}", StructureEncoding(0, 0), data_root)
        for name in ("DD", "ENZYMES", "IMDB-BINARY")
    ]
    portraits = [portrait(block, torch.arange(block.graphs)) for block in blocks]
    features = divergences([one.feature for one in portraits])
    structure = divergences([one.structure for one in portraits])
    assert features[0, 1] > 2 * structure[0, 1]
    assert structure[1, 2] > 10 * features[1, 2]
