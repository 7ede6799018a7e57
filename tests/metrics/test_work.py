"""Counted operations agree with counts by hand."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext

import pytest
import torch
from torch import nn

from ramet.data import GraphBlock
from ramet.engine import Node
from ramet.engine.node import request
from ramet.methods import METHODS, fedstar, local
from ramet.metrics.work import WORK, count_operations, peak_memory, total
from ramet.models import GIN, GraphNetwork, GraphShape
from ramet.payload import digest
from ramet.tasks import GraphClassification


def test_a_gin_by_hand(two_graphs: GraphBlock) -> None:
    nodes, links, graphs, features, width, classes = 7, 10, 2, 2, 8, 3
    model = GIN(GraphShape(features, 0, classes), GraphNetwork(width, layers=2, dropout=0.0))
    batch = two_graphs.cut(torch.tensor([0, 1]))
    with count_operations(model) as work:
        loss = GraphClassification().loss(model, batch)
        loss.backward()  # type: ignore[no-untyped-call]
    layers = 2 * 2 * nodes * width * width  # two linear maps in each of two layers
    head = graphs * width * width + graphs * width * classes
    assert work == {
        "forward_linear": 2 * (layers + head),
        "backward_linear": 2 * 2 * (layers + head),  # for the weights and for the inputs
        "forward_messages": 2 * 2 * links * width + nodes * width,  # and the sum over each graph
        "backward_messages": 2 * 2 * links * width,
        "forward_avoided": 2 * nodes * features * width,
        "backward_avoided": 2 * nodes * features * width,
    }
    assert total(work) == sum(work[name] for name in WORK if "avoided" not in name)


def test_gather_and_scatter_count_as_messages() -> None:
    rows, model = torch.ones(5, 4, requires_grad=True), nn.Identity()
    with count_operations(model) as work:
        torch.zeros(2, 4).index_add(0, torch.tensor([0, 1, 0, 1, 1]), model(rows))
    assert sum(work.values()) == work["backward_messages"] == 20  # outside the model's forward


@pytest.mark.parametrize("name", METHODS)
def test_every_method_reports_its_work_once_and_counting_changes_no_result(
    name: str, tiny_node: Callable[..., Node], monkeypatch: pytest.MonkeyPatch
) -> None:
    method = METHODS[name]()
    first = tiny_node("rings", method).answer(request(1, True, {}))
    assert all(first.numbers[name] > 0 for name in WORK if "avoided" not in name)
    state = digest(tiny_node("rings", method).snapshots.load(1).arrays)
    later = tiny_node("rings", method).answer(request(2, True, {}, last=1))
    assert not set(WORK) & set(later.numbers)
    monkeypatch.setattr("ramet.engine.node.count_operations", lambda model: nullcontext({}))
    tiny_node("rings", method).answer(request(1, True, {}))
    assert digest(tiny_node("rings", method).snapshots.load(1).arrays) == state


def test_two_channels_cost_more_than_one(tiny_node: Callable[..., Node]) -> None:
    one = tiny_node("trees", local()).answer(request(1, True, {})).numbers
    two = tiny_node("blocks", fedstar()).answer(request(1, True, {})).numbers
    assert total(two) > 2 * total(one)


def test_peak_memory_is_that_of_this_process() -> None:
    before = peak_memory()
    block = torch.ones(before // 4 + 10_000_000)  # more than the peak so far
    assert peak_memory() > before > 50e6
    assert block.numel()
