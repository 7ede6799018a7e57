"""Counted operations agree with counts by hand."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean

import pytest
import torch
from torch import nn
from torch.nn import functional

import ramet
from federations import PLANTED, planted_run
from ramet.data import GraphBlock
from ramet.engine.messages import request
from ramet.engine.server.wire import Answer, Wire
from ramet.engine.site.client import Client
from ramet.experiment import RunFolder
from ramet.experiment.executing import execute
from ramet.experiment.local_engine import local_wire
from ramet.methods import METHODS, fedstar, local
from ramet.metrics import Record
from ramet.metrics.work import WORK, count_operations, is_counted, peak_memory, total
from ramet.models.settings import GraphNetwork
from ramet.models.shape import GraphShape
from ramet.models.simple_hgn import SimpleHGN
from ramet.models.single_channel import GIN
from ramet.partition import Reading
from ramet.partition.by_relation import Sampling, planted_hetero
from ramet.payload import Payload, digest
from ramet.rules.method import step_of
from ramet.tasks import GraphClassification, LinkPrediction, StructureEncoding


def test_a_gin_by_hand(two_graphs: GraphBlock) -> None:
    nodes, links, graphs, features, width, classes = 7, 10, 2, 2, 8, 3
    model = GIN(GraphShape(features, 0, classes), GraphNetwork(width, layers=2, dropout=0.0))
    batch = two_graphs.cut(torch.tensor([0, 1]))
    with count_operations() as work:
        task = GraphClassification()
        loss = task.loss(task.output(model, batch), batch)
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
    rows = torch.ones(5, 4, requires_grad=True)
    with count_operations() as work:
        torch.zeros(2, 4).index_add(0, torch.tensor([0, 1, 0, 1, 1]), rows)
    assert sum(work.values()) == work["forward_messages"] == 20


def test_a_loss_that_calls_parts_of_a_model_counts_like_one_that_calls_the_whole() -> None:
    """`encode`, then `scores`, as in a loss on pairs of nodes."""
    task, setting = LinkPrediction(), planted_hetero(Sampling(clients=3), nodes=80, links=300)
    reading = Reading(Path(), 123, StructureEncoding(0, 0))
    samples = task.samples(setting.client_data(setting.clients[0], reading))
    batch = next(iter(task.batches(samples, 32, torch.Generator().manual_seed(1))))
    model = SimpleHGN(task.shape(samples)).eval()
    with count_operations() as whole:
        task.loss(task.output(model, batch), batch).backward()  # type: ignore[no-untyped-call]
    with count_operations() as by_parts:
        logits = model.scores(model.encode(batch.graph), batch.pairs)
        functional.binary_cross_entropy_with_logits(logits, batch.labels).backward()  # type: ignore[no-untyped-call]
    assert by_parts == whole
    assert whole["forward_linear"] > 0
    assert whole["forward_messages"] > 0


def test_a_penalty_on_a_part_of_a_model_is_forward_and_backward() -> None:
    nodes, width = 6, 3
    model = nn.ModuleDict({"used": nn.Linear(width, width), "penalised": nn.Linear(width, width)})
    given = torch.ones(nodes, width)
    with count_operations() as work:
        loss = model["used"](given).sum()
        penalty = model["penalised"](given).square().sum()
        (loss + penalty).backward()
    assert work["forward_linear"] == 2 * 2 * nodes * width * width
    assert work["backward_linear"] == 2 * 2 * nodes * width * width  # for the weights only
    with count_operations() as gradient:
        torch.autograd.grad(model["penalised"](given).sum(), [*model["penalised"].parameters()])
    assert gradient["forward_linear"] == gradient["backward_linear"] == 2 * nodes * width * width


@pytest.mark.parametrize("name", METHODS)
def test_every_method_reports_its_work_at_first_and_counting_changes_no_result(
    name: str, tiny_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    method = METHODS[name]()
    first = tiny_client("rings", method).answer(request(1, True, {}))
    assert all(first.numbers[name] > 0 for name in WORK if "avoided" not in name)
    step = step_of(method, 1)
    state = digest(tiny_client("rings", method).snapshots.load(step).arrays)
    tiny_client("rings", method).answer(request(2, True, {}, last=1))
    later = tiny_client("rings", method).answer(request(3, True, {}, last=2))
    assert not set(WORK) & set(later.numbers)
    monkeypatch.setattr("ramet.engine.site.work.count_operations", lambda: nullcontext({}))
    tiny_client("rings", method).answer(request(1, True, {}))
    assert digest(tiny_client("rings", method).snapshots.load(step).arrays) == state


@pytest.mark.parametrize(
    ("number", "last", "phases", "counted"),
    [
        (1, 0, (), True),
        (2, 1, (), True),
        (3, 2, (), False),
        (5, 0, (), True),  # the first round of this client
        (10, 9, (), True),
        (12, 8, (), True),  # it was not asked in round 10
        (12, 10, (), False),
        (42, 41, (), False),
        (42, 41, (41,), True),
        (44, 40, (41,), True),
        (43, 42, (41,), False),
    ],
)
def test_work_is_counted_where_it_may_change(
    number: int, last: int, phases: tuple[int, ...], counted: bool
) -> None:
    assert is_counted(number, last, phases) is counted


@dataclass(frozen=True)
class CountingWire:
    """Clients that count in every round, because no reply of theirs is known."""

    wire: Wire

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, message in requests:
            numbers = {**message.numbers, "last": 0}
            yield from self.wire.exchange([(client, replace(message, numbers=numbers))])


@pytest.mark.thorough
def test_the_work_of_both_phases_of_adafgl_is_counted(tmp_path: Path) -> None:
    given = {"shared_rounds": 4, "personal_epochs": 2, **PLANTED}
    result = ramet.run("adafgl", "planted", rounds=8, out=tmp_path / "run", **given)
    run = RunFolder.create(tmp_path / "counted", RunFolder(result.folder).experiment())
    execute(run, CountingWire(local_wire(run)), lambda _: None)
    truth = [[total(one) for one in record.trained.values()] for record in run.records()]
    assert min(truth[4]) > 10 * max(truth[3])  # the second phase costs far more
    assert result.summary.flops.per_client_round == pytest.approx(fmean(map(fmean, truth)))
    sent = [record.round for record in RunFolder(result.folder).records() if _counts(record)]
    assert sent == [1, 2, 5, 6]


def _counts(record: Record) -> bool:
    return any(set(WORK) & set(numbers) for numbers in record.trained.values())


def test_a_first_round_that_costs_less_counts_once(tmp_path: Path) -> None:
    """MOON compares with its own last model, which it does not have in round 1."""
    result = planted_run("moon", tmp_path / "run")
    first, second, third = RunFolder(result.folder).records()
    assert not _counts(third)
    for client, work in result.summary.flops.clients.items():
        one, two = total(first.trained[client]), total(second.trained[client])
        assert two > 2 * one
        assert total(work) == pytest.approx((one + 2 * two) / 3, abs=4)  # each kind is rounded


def test_two_channels_cost_more_than_one(tiny_client: Callable[..., Client]) -> None:
    one = tiny_client("trees", local()).answer(request(1, True, {})).numbers
    two = tiny_client("blocks", fedstar()).answer(request(1, True, {})).numbers
    assert total(two) > 2 * total(one)


def test_peak_memory_is_that_of_this_process() -> None:
    before = peak_memory()
    block = torch.ones(before // 4 + 10_000_000)  # more than the peak so far
    assert peak_memory() > before > 50e6
    assert block.numel()
