"""Nodes of one graph: batches, whole or drawn."""

from __future__ import annotations

import pytest
import torch
from torch_geometric import typing

from ramet.data import ClientData, NodeGraph, Split
from ramet.data.graphs.neighbour_sampling import part_around
from ramet.errors import RametError
from ramet.tasks import NodeClassification


def test_a_drawn_part_keeps_what_its_links_join(small_graph: NodeGraph) -> None:
    nodes, links = torch.tensor([149, 3, 70, 8]), torch.arange(0)
    assert part_around(small_graph, nodes, links, 2).trained.tolist() == [True, True, False, False]
    touched = torch.unique(torch.cat([small_graph.left[:5], small_graph.right[:5]])).long().flip(0)
    part = part_around(small_graph, touched, torch.arange(5), 1)
    assert (part.left < part.right).all()
    ends = torch.stack([touched[part.left.long()], touched[part.right.long()]])
    wanted = torch.stack([small_graph.left[:5], small_graph.right[:5]])
    assert torch.equal(ends.sort(dim=0).values, wanted.long())
    assert torch.equal(part.labels, small_graph.labels[touched])
    assert torch.equal(part.kinds, small_graph.kinds[:5])


def test_batches_cover_the_training_nodes_or_say_what_is_missing(small_graph: NodeGraph) -> None:
    train = torch.arange(100)
    task = NodeClassification(sample=(5, 5))
    samples = task.samples(ClientData(small_graph, Split(train, train, train)))
    drawn = task.batches(samples, 30, torch.Generator().manual_seed(0))
    if typing.WITH_PYG_LIB or typing.WITH_TORCH_SPARSE:
        parts = list(drawn)
        assert [int(part.trained.sum()) for part in parts] == [30, 30, 30, 10]
        seen = torch.cat([part.features[part.trained] for part in parts])
        assert {tuple(row) for row in seen.tolist()} == {
            tuple(row) for row in small_graph.features[train].tolist()
        }
    else:
        with pytest.raises(RametError, match="pyg-lib or torch-sparse"):
            next(drawn)
