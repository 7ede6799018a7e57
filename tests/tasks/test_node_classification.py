"""Node classification: batches with sampled neighbours."""

from __future__ import annotations

import pytest
import torch
from torch_geometric import typing

from ramet.data import ClientData, NodeGraph, Split
from ramet.data.graphs.neighbour_sampling import sampled_subgraph
from ramet.errors import RametError
from ramet.tasks import NodeClassification


def test_a_sampled_subgraph_keeps_the_ends_of_its_links(small_graph: NodeGraph) -> None:
    nodes, links = torch.tensor([149, 3, 70, 8]), torch.arange(0)
    trained = sampled_subgraph(small_graph, nodes, links, 2).trained
    assert trained.tolist() == [True, True, False, False]
    touched = torch.unique(torch.cat([small_graph.left[:5], small_graph.right[:5]])).long().flip(0)
    part = sampled_subgraph(small_graph, touched, torch.arange(5), 1)
    assert (part.left < part.right).all()
    ends = torch.stack([touched[part.left.long()], touched[part.right.long()]])
    expected = torch.stack([small_graph.left[:5], small_graph.right[:5]])
    assert torch.equal(ends.sort(dim=0).values, expected.long())
    assert torch.equal(part.labels, small_graph.labels[touched])
    assert torch.equal(part.kinds, small_graph.kinds[:5])


def test_batches_cover_the_training_nodes_or_name_the_missing_package(
    small_graph: NodeGraph,
) -> None:
    train = torch.arange(100)
    task = NodeClassification(sample=(5, 5))
    samples = task.samples(ClientData(small_graph, Split(train, train, train)))
    batches = task.batches(samples, 30, torch.Generator().manual_seed(0))
    if typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE:
        parts = list(batches)
        assert [int(part.trained.sum()) for part in parts] == [30, 30, 30, 10]
        seen = torch.cat([part.features[part.trained] for part in parts])
        assert {tuple(row) for row in seen.tolist()} == {
            tuple(row) for row in small_graph.features[train].tolist()
        }
    else:
        with pytest.raises(RametError, match="pyg-lib or torch-sparse"):
            next(batches)
