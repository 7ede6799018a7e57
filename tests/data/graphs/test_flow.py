from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

from ramet.data import GraphBlock, NodeGraph
from ramet.data.graphs.flow import Csr, Flow
from ramet.data.graphs.node_graph import SparseFeatures


def links(flow: Flow) -> list[tuple[int, int]]:
    return list(zip(flow.sources.tolist(), flow.targets.tolist(), strict=True))


def test_the_flow_of_a_triangle_with_a_tail_by_hand(two_graphs: GraphBlock) -> None:
    flow = two_graphs.cut(torch.tensor([0])).whole.flow
    assert links(flow) == [
        *[(1, 0), (2, 0), (0, 0)],
        *[(0, 1), (2, 1), (1, 1)],
        *[(0, 2), (1, 2), (3, 2), (2, 2)],
        *[(2, 3), (3, 3)],
    ]
    assert flow.starts.tolist() == [0, 3, 6, 10, 12]
    assert flow.sources[flow.back_order].tolist() == sorted(flow.sources.tolist())


def test_isolated_nodes_have_their_self_loop(two_graphs: GraphBlock) -> None:
    flow = two_graphs.cut(torch.tensor([1])).whole.flow
    assert links(flow) == [(1, 0), (0, 0), (0, 1), (1, 1), (2, 2)]


def test_the_reverse_is_the_transposed_matrix_for_each_head(small_graph: NodeGraph) -> None:
    flow = small_graph.whole.flow
    weights = torch.rand(flow.sources.numel(), 3, generator=torch.Generator().manual_seed(0))
    forward, reverse = flow.for_heads(3)
    assert flow.for_heads(3)[0] is forward
    matrix = forward.filled(weights.T.reshape(-1)).to_dense()
    back = reverse.filled(weights[flow.back_order].T.reshape(-1)).to_dense()
    assert torch.equal(back, matrix.T)
    for head, block in enumerate(torch.arange(3 * flow.nodes).view(3, -1)):
        expected = torch.zeros(flow.nodes, flow.nodes)
        expected.index_put_((flow.targets, flow.sources), weights[:, head], accumulate=True)
        assert torch.allclose(matrix[block][:, block], expected)
        matrix[block.unsqueeze(1), block] = 0
    assert not matrix.any()


def test_blocks_by_hand() -> None:
    repeated = Csr(torch.tensor([0, 2, 3]).int(), torch.tensor([0, 1, 1]).int()).repeated(2)
    assert repeated.starts.tolist() == [0, 2, 3, 5, 6]
    assert repeated.columns.tolist() == [0, 1, 1, 2, 3, 3]


@pytest.mark.parametrize(("density", "kind"), [(0.05, SparseFeatures), (0.5, torch.Tensor)])
def test_features_are_compact_if_most_are_zero(
    density: float, kind: type[Any], small_graph: NodeGraph
) -> None:
    generator = torch.Generator().manual_seed(0)
    words = (torch.rand(small_graph.nodes, 40, generator=generator) < density).float()
    graph = replace(small_graph, features=words)
    assert isinstance(graph.compact_features, kind)
