"""How sites look from afar."""

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
def test_clustering_is_networkx_clustering(
    name: str, dense_up_to: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(portrait_module, "_DENSE_UP_TO", dense_up_to)
    block = read_block(f"tiny:{name}", StructureEncoding(0, 0), Path())
    batch = block.cut(torch.arange(12))
    graph = nx.Graph()
    graph.add_nodes_from(range(batch.nodes))
    graph.add_edges_from(zip(batch.rows.tolist(), batch.columns.tolist(), strict=True))
    expected = nx.clustering(graph)
    found = clustering_coefficients(batch)
    assert found.tolist() == pytest.approx([expected[node] for node in range(batch.nodes)])


def test_a_portrait_by_hand(two_graphs: GraphBlock) -> None:
    seen = portrait(two_graphs, torch.tensor([0, 1]))
    # links 0-1 1-2 0-2 2-3 4-5, features 0 1 1 0 1 0 1: only 1-2 joins two alike
    assert seen.feature[[10, 19]] == pytest.approx([0.8, 0.2])
    # degrees 2 2 3 1 1 1 0 of 7 nodes, each half of the distribution
    assert seen.structure[:4] == pytest.approx(np.array([1, 3, 2, 1]) / 14)
    # the triangle's corners: twice 1, once 1/3; the others 0
    clustering = seen.structure[-20:]
    assert clustering[[0, 6, 19]] == pytest.approx(np.array([4, 1, 2]) / 14)
    assert seen.structure.sum() == pytest.approx(1)


def test_divergence_is_0_for_the_same_and_1_for_nothing_in_common() -> None:
    apart = divergences([np.array([1.0, 0, 0]), np.array([1.0, 0, 0]), np.array([0, 0.5, 0.5])])
    assert apart == pytest.approx(np.array([[0, 0, 1], [0, 0, 1], [1, 1, 0]]))


def test_real_proteins_differ_in_features_and_social_networks_in_structure(
    data_root: Path,
) -> None:
    """The pattern of FedDense's Fig. 1."""
    blocks = [
        read_block(f"tu:{name}", StructureEncoding(0, 0), data_root)
        for name in ("DD", "ENZYMES", "IMDB-BINARY")
    ]
    seen = [portrait(block, torch.arange(block.graphs)) for block in blocks]
    features = divergences([one.feature for one in seen])
    structure = divergences([one.structure for one in seen])
    assert features[0, 1] > 2 * structure[0, 1]
    assert structure[1, 2] > 10 * features[1, 2]
