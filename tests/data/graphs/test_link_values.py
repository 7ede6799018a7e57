"""Attributes, weights, directions and times of links, wherever graphs are cut or joined."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch_geometric.utils import is_undirected, subgraph, to_undirected

from ramet.data import ClientData, NodeGraph, Split
from ramet.data.fingerprint import data_sha256
from ramet.data.graphs.graph_block import Batch, block_with_values
from ramet.data.graphs.link_values import LinkValues
from ramet.data.graphs.neighbour_sampling import sampled_subgraph
from ramet.models.random_views import random_view
from ramet.partition.corruption import Corruption

# 0 -> 2 twice, 3 -> 1, 1 - 2 both ways
LEFT, RIGHT, WAYS = [0, 0, 1, 1], [2, 2, 3, 2], [1, 1, -1, 0]
AMOUNTS = [[5.0, 1.0], [6.0, 1.0], [7.0, 0.0], [8.0, 0.0]]


def values(directed: bool = True) -> LinkValues:
    return LinkValues(
        attributes=torch.tensor(AMOUNTS),
        weights=torch.tensor([0.5, 1.5, 2.0, 3.0]),
        directions=torch.tensor(WAYS, dtype=torch.int8) if directed else None,
        times=torch.tensor([10.0, 11.0, 12.0, 13.0], dtype=torch.float64),
    )


def graph(link_values: LinkValues) -> NodeGraph:
    return NodeGraph(
        features=torch.arange(8.0).reshape(4, 2),
        labels=torch.tensor([0, 1, 0, 1]),
        classes=2,
        left=torch.tensor(LEFT, dtype=torch.int32),
        right=torch.tensor(RIGHT, dtype=torch.int32),
        kinds=torch.zeros(4, dtype=torch.uint8),
        kind_names=("transfer",),
        trained=torch.ones(4, dtype=torch.bool),
        link_values=link_values,
    )


def edges_of(given: NodeGraph | Batch) -> list[tuple[int, int, float]]:
    """Source, target and amount of each edge."""
    assert given.edge_attr is not None
    amounts = given.edge_attr[:, 0].tolist()
    return sorted((s, t, a) for (s, t), a in zip(given.edge_index.T.tolist(), amounts, strict=True))


DIRECTED = [(0, 2, 5.0), (0, 2, 6.0), (1, 2, 8.0), (2, 1, 8.0), (3, 1, 7.0)]
BOTH_WAYS = [(0, 2, 5.0), (0, 2, 6.0), (1, 2, 8.0), (1, 3, 7.0)]


def reversed_too(edges: list[tuple[int, int, float]]) -> list[tuple[int, int, float]]:
    return sorted([*edges, *((target, source, amount) for source, target, amount in edges)])


def test_undirected_links_are_edges_in_both_directions_with_the_same_attributes() -> None:
    given = graph(values(directed=False))
    assert edges_of(given) == reversed_too(BOTH_WAYS)
    assert is_undirected(given.edge_index, given.edge_attr)
    assert given.edge_weight is not None
    assert given.edge_time is not None
    ours = torch.stack([given.edge_weight.double(), given.edge_time], dim=1)
    expected = to_undirected(
        torch.tensor([LEFT, RIGHT])[:, 1:], torch.tensor([1.5, 2.0, 3.0]), reduce="min"
    )
    chosen = ours[:, 1] != 10.0  # PyG would merge the two links between 0 and 2
    assert torch.equal(ours[chosen, 0].sort().values, expected[1].double().sort().values)


def test_directed_links_are_edges_from_their_sources_to_their_targets() -> None:
    given = graph(values())
    assert given.directed
    assert edges_of(given) == DIRECTED
    assert given.edge_type.numel() == len(DIRECTED)


def test_links_without_values_are_as_they_were() -> None:
    given = graph(LinkValues())
    assert given.edge_attr is given.edge_weight is given.edge_time is None
    assert not given.directed
    assert given.weighted is given.whole
    assert given.edge_index.tolist() == [[2, 2, 3, 2, 0, 0, 1, 1], [0, 0, 1, 1, 2, 2, 2, 3]]


def test_the_channel_of_weighted_links_has_pygs_norm() -> None:
    from torch_geometric.nn.conv.gcn_conv import gcn_norm

    given = graph(values(directed=False))
    index, norm = gcn_norm(given.edge_index, given.edge_weight, num_nodes=4)
    dense = torch.zeros(4, 4).index_put((index[1], index[0]), norm, accumulate=True)
    scale = given.weighted.gcn_scale
    ours = scale * (given.weighted.adjacency.to_dense() + torch.eye(4)) * scale.T
    torch.testing.assert_close(ours, dense)


@pytest.mark.parametrize("nodes", [[2, 1, 0], [3, 2, 1], [0, 1, 2, 3]])
@pytest.mark.parametrize("directed", [True, False])
def test_a_subgraph_keeps_what_its_links_carry(nodes: list[int], directed: bool) -> None:
    whole = graph(values(directed))
    part = whole.subgraph(torch.tensor(nodes))
    kept, amounts = subgraph(torch.tensor(nodes), whole.edge_index, whole.edge_attr)
    new = {old: index for index, old in enumerate(nodes)}
    expected = sorted(
        (new[s], new[t], a)
        for (s, t), a in zip(kept.T.tolist(), amounts[:, 0].tolist(), strict=True)
    )
    assert edges_of(part) == expected


def test_marked_moved_and_viewed_graphs_keep_values() -> None:
    whole = graph(values())
    marked = whole.with_trained(torch.tensor([1]))
    assert marked.edges is whole.edges
    meta = whole.to(torch.device("meta"))
    assert meta.link_values.attributes is not None
    assert meta.link_values.attributes.is_meta
    assert edges_of(random_view(whole, 0.0, 0.0)) == DIRECTED
    mended = whole.with_neighbours(torch.tensor([3]), torch.ones(1, 2))
    assert edges_of(mended) == sorted([*DIRECTED, (3, 4, 0.0), (4, 3, 0.0)])


def test_sampled_neighbours_bring_the_values_of_their_links() -> None:
    batch = sampled_subgraph(graph(values()), torch.tensor([2, 0, 1]), torch.tensor([1, 3]), 1)
    assert edges_of(batch) == [(0, 2, 8.0), (1, 0, 6.0), (2, 0, 8.0)]
    assert batch.trained.tolist() == [True, False, False]


def test_corruption_keeps_values_and_gives_random_links_neutral_ones() -> None:
    whole = graph(values())
    split = Split(*(torch.tensor([index]) for index in range(3)))
    noisy = Corruption(missing_links=0.25, random_links=0.5)
    found = noisy.applied(ClientData(whole, split), seed=0).content.link_values
    assert found.weights is not None
    assert found.directions is not None
    assert {0.5, 1.5, 2.0, 3.0} > {*found.weights[:3].tolist()}
    assert found.weights[3:].tolist() == [1.0] * (found.weights.numel() - 3)


def test_values_are_part_of_the_fingerprint_and_their_absence_is_not() -> None:
    split = Split(*(torch.tensor([index]) for index in range(3)))

    def of(link_values: LinkValues) -> str:
        return data_sha256(ClientData(graph(link_values), split))

    other = replace(values(), weights=torch.tensor([0.5, 1.5, 2.0, 3.1]))
    assert len({of(values()), of(values(directed=False)), of(other), of(LinkValues())}) == 4


# two graphs: nodes 0, 1, 2 and 3, 4
ENDS = torch.tensor([[0, 2, 0, 4], [1, 1, 1, 3]])
STARTS = torch.tensor([0, 3, 5])


def block_batches(directed: bool) -> tuple[Batch, Batch]:
    ways = torch.ones(4, dtype=torch.int8) if directed else None
    block = block_with_values(
        ENDS,
        replace(values(), directions=ways),
        STARTS,
        features=torch.ones(5, 1),
        feature_width=1,
        labels=torch.tensor([0, 1]),
    )
    return block.cut(torch.tensor([0, 1])), block.cut(torch.tensor([1, 0]))


def shifted(
    edges: list[tuple[int, int, float]], by: dict[int, int]
) -> list[tuple[int, int, float]]:
    return sorted((by[source], by[target], amount) for source, target, amount in edges)


@pytest.mark.parametrize("directed", [True, False])
def test_batches_of_graphs_have_the_values_of_their_links(directed: bool) -> None:
    one = [(0, 1, 5.0), (0, 1, 7.0), (2, 1, 6.0), (4, 3, 8.0)]
    expected = one if directed else reversed_too(one)
    in_order, swapped = block_batches(directed)
    assert in_order.directed is directed
    assert edges_of(in_order) == sorted(expected)
    assert edges_of(swapped) == shifted(expected, {3: 0, 4: 1, 0: 2, 1: 3, 2: 4})
    weights = in_order.weighted.adjacency.to_dense()
    assert torch.equal(weights, weights.T)
    assert float(weights[0, 1]) == 2.5


def test_a_block_stores_what_its_links_carry() -> None:
    from ramet.data import GraphBlock

    block = block_with_values(
        ENDS, values(), STARTS, torch.ones(5, 1), 1, labels=torch.tensor([0, 1])
    )
    again = GraphBlock.from_tensors(block.tensors(), 1)
    assert edges_of(again.cut(torch.tensor([0, 1]))) == edges_of(block.cut(torch.tensor([0, 1])))
    everything: list[Tensor] = [*block.link_values.tensors().values()]
    assert len(everything) == 4
