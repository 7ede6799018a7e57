"""A client's state between rounds: any node object, in any process, gives the same replies."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.optim import SGD, Adam, Optimizer
from torch.optim.lr_scheduler import StepLR

import ramet
from ramet.data import Batch
from ramet.engine.messages import request
from ramet.engine.server.wire import Answer
from ramet.engine.site.client import Client
from ramet.engine.site.states import LiveStates
from ramet.engine.store.checkpoint import Snapshots
from ramet.engine.store.client_state import ClientState, restore, snapshot
from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder
from ramet.experiment.client_side import client_of
from ramet.experiment.executing import execute
from ramet.methods import fedavg
from ramet.models.shape import GraphShape
from ramet.models.single_channel import GIN
from ramet.payload import Payload, digest
from ramet.rules.method import assembled
from ramet.tasks import GraphClassification, GraphSamples, Scores
from ramet.training.local import LocalTraining, Penalty, Session

ClientMaker = Callable[..., Client]
ROUNDS = (1, 2, 3, 4)


def replies(node: Client) -> Iterator[tuple[str, dict[str, float]]]:
    """The arrays and numbers of each reply; every message sends back what the last one returned."""
    arrays: Any = {}
    for number in ROUNDS:
        torch.manual_seed(number)  # global draws must not matter
        reply = node.answer(request(number, True, arrays))
        arrays = reply.arrays
        yield digest(arrays), {**reply.numbers, "memory": 0}


def warm_and_cold(node: Client, folder: Path) -> tuple[list[Any], list[Any]]:
    """Replies of a client that stays in memory, and of one that is read for every message."""
    warm = replace(node, snapshots=Snapshots(folder / "warm"), states=LiveStates())
    cold = replace(node, snapshots=Snapshots(folder / "cold"))
    return [*replies(warm)], [*replies(cold)]


class Halving(LocalTraining):
    """Halves the learning rate after every round."""

    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        loss = super().fit(session, penalty)
        for group in session.optimiser.param_groups:
            group["lr"] *= 0.5
        return loss


def test_a_learning_rate_that_training_has_changed_survives(
    tiny_client: ClientMaker, tmp_path: Path
) -> None:
    node = tiny_client("rings", assembled(fedavg(), training=Halving(lr=0.01)))
    warm, cold = warm_and_cold(node, tmp_path)
    assert warm == cold
    constant = tiny_client("rings", assembled(fedavg(), training=LocalTraining(lr=0.01)))
    assert warm != [*replies(constant)]
    saved = Snapshots(tmp_path / "cold").load(4).facts["optimiser"]["groups"]
    assert [group["lr"] for group in saved] == [0.01 / 2**4]


HALVING = """
from dataclasses import replace

from ramet import Method, fedavg
from ramet.training.local import LocalTraining


class Halving(LocalTraining):
    def fit(self, session, penalty=None):
        loss = super().fit(session, penalty)
        for group in session.optimiser.param_groups:
            group["lr"] *= 0.5
        return loss


def halving() -> Method:
    return replace(fedavg(), name="halving", training=Halving(lr=0.01))
"""


@dataclass(frozen=True)
class NewNodePerMessage:
    """A wire on which every message is answered by a new node."""

    experiment: Experiment
    states: Path

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, message in requests:
            yield client, client_of(self.experiment, client, self.states).answer(message)


@pytest.mark.parametrize("clients", [5, pytest.param(70, marks=pytest.mark.thorough)])
def test_a_run_does_not_depend_on_the_objects_that_answer(clients: int, tmp_path: Path) -> None:
    (tmp_path / "halving.py").write_text(HALVING)
    result = ramet.run(
        f"{tmp_path}/halving.py:halving",
        "planted",
        rounds=3,
        out=tmp_path / "run",
        clients=clients,
        nodes=300,
        links=300,
        hidden=4,
    )
    other = RunFolder.create(tmp_path / "new", RunFolder(result.folder).experiment())
    execute(other, NewNodePerMessage(other.experiment(), other.clients), lambda _: None)
    one, two = (RunFolder(folder).records() for folder in (result.folder, tmp_path / "new"))
    assert [record.evaluated for record in one] == [record.evaluated for record in two]
    summary = other.summary()
    assert summary is not None
    assert summary.sha256 == result.summary.sha256


class Counting(Optimizer):
    """Divides the learning rate by the number of steps, a Python number per parameter."""

    def __init__(self, parameters: Iterable[nn.Parameter], lr: float) -> None:
        super().__init__(parameters, {"lr": lr})

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        for group in self.param_groups:
            for parameter in group["params"]:
                steps = self.state[parameter].get("steps", 0) + 1
                self.state[parameter]["steps"] = steps
                parameter.sub_(parameter.grad, alpha=group["lr"] / steps)


@dataclass(frozen=True)
class With(LocalTraining):
    """Local training with another optimiser."""

    make: Callable[[nn.Module], Optimizer] = lambda model: SGD(model.parameters())

    def optimiser(self, model: nn.Module) -> Optimizer:
        return self.make(model)


OPTIMISERS: dict[str, Callable[[nn.Module], Optimizer]] = {
    "SGD with momentum": lambda model: SGD(model.parameters(), lr=0.01, momentum=0.9),
    "Adam with amsgrad": lambda model: Adam(model.parameters(), lr=0.01, amsgrad=True),
    "Python numbers": lambda model: Counting(model.parameters(), lr=0.1),
}


@pytest.mark.parametrize("name", OPTIMISERS)
def test_the_state_of_an_optimiser_survives(
    name: str, tiny_client: ClientMaker, tmp_path: Path
) -> None:
    node = tiny_client("trees", assembled(fedavg(), training=With(make=OPTIMISERS[name])))
    warm, cold = warm_and_cold(node, tmp_path)
    assert warm == cold
    assert len({arrays for arrays, _ in warm}) == len(ROUNDS)


def test_the_saved_tensors_and_numbers_of_optimisers(tiny_client: ClientMaker) -> None:
    saved = {}
    for client, name in zip(("rings", "trees", "blocks"), OPTIMISERS, strict=True):
        node = tiny_client(client, assembled(fedavg(), training=With(make=OPTIMISERS[name])))
        node.answer(request(1, True, {}))
        saved[name] = node.snapshots.load(1)
    assert "optimiser/momentum_buffer/embed.bias" in saved["SGD with momentum"].arrays
    assert "optimiser/max_exp_avg_sq/embed.bias" in saved["Adam with amsgrad"].arrays
    counted = saved["Python numbers"].facts["optimiser"]["numbers"]
    assert counted["embed.bias"] == {"steps": 1}  # 120 graphs fit into one batch of 128


def refused(node: Client, *messages: Payload) -> str:
    """The error with which a node answers the last message."""
    *earlier, last = messages or [request(1, True, {})]
    for message in earlier:
        node.answer(message)
    with pytest.raises(RametError) as error:
        node.answer(last)
    return str(error.value)


class WithClosure(LocalTraining):
    """Full-batch L-BFGS, which keeps lists of tensors in its state."""

    def optimiser(self, model: nn.Module) -> Optimizer:
        return torch.optim.LBFGS(model.parameters(), max_iter=3)

    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        generator = torch.Generator().manual_seed(0)
        (batch,) = session.task.batches(session.samples, 1000, generator)

        def closure() -> float:
            session.optimiser.zero_grad()
            output = session.task.output(session.model, batch)
            loss = session.task.loss(output, batch)
            loss.backward()  # type: ignore[no-untyped-call]
            return float(loss.detach())

        return float(session.optimiser.step(closure))


def test_an_optimiser_with_lists_of_tensors_is_refused(tiny_client: ClientMaker) -> None:
    error = refused(tiny_client("rings", assembled(fedavg(), training=WithClosure())))
    assert "cannot be saved between rounds. Tensors of a parameter, and numbers, can be." in error


class Scheduled(LocalTraining):
    """Keeps a schedule as an attribute of the optimiser."""

    def optimiser(self, model: nn.Module) -> Optimizer:
        optimiser = super().optimiser(model)
        optimiser.schedule = StepLR(optimiser, 1)  # type: ignore[attr-defined]
        return optimiser

    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        loss = super().fit(session, penalty)
        session.optimiser.schedule.step()  # type: ignore[attr-defined]
        return loss


class ScheduledInFit(LocalTraining):
    """Creates the schedule in the first round."""

    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        session.optimiser.schedule = StepLR(session.optimiser, 1)  # type: ignore[attr-defined]
        return super().fit(session, penalty)


@pytest.mark.parametrize("training", [Scheduled(), ScheduledInFit()], ids=["changed", "added"])
def test_a_schedule_that_is_an_attribute_of_the_optimiser_is_refused(
    training: LocalTraining, tiny_client: ClientMaker
) -> None:
    error = refused(tiny_client("rings", assembled(fedavg(), training=training)))
    assert "changed the attribute 'schedule' of the optimiser, which is not saved" in error
    assert "`param_groups`, or compute it from `session.randomness.round`" in error


class AddsAGroup(LocalTraining):
    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        loss = super().fit(session, penalty)
        session.optimiser.add_param_group({"params": [nn.Parameter(torch.zeros(1))]})
        return loss


def test_a_new_group_of_parameters_is_refused(tiny_client: ClientMaker) -> None:
    error = refused(tiny_client("rings", assembled(fedavg(), training=AddsAGroup())))
    assert "Create all groups in `optimiser(model)`" in error


class CountsCalls(GIN):
    def __init__(self, shape: GraphShape) -> None:
        super().__init__(shape)
        self.calls = 0

    def forward(self, batch: Batch) -> Tensor:
        self.calls += 1
        return super().forward(batch)


class CountsCallsInPart(GIN):
    def __init__(self, shape: GraphShape) -> None:
        super().__init__(shape)
        self.dropout.calls = 0  # type: ignore[assignment]

    def forward(self, batch: Batch) -> Tensor:
        self.dropout.calls += 1  # type: ignore[assignment, operator]
        return super().forward(batch)


class Caches(GIN):
    _cache = 0

    def forward(self, batch: Batch) -> Tensor:
        self._cache += 1
        return super().forward(batch)


def test_an_attribute_of_the_model_that_changes_is_refused_unless_it_is_private(
    tiny_client: ClientMaker,
) -> None:
    error = refused(tiny_client("rings", assembled(fedavg(), network=CountsCalls)))
    assert "changed the attribute 'calls' of the model, which is not saved between" in error
    assert "Use a parameter or a buffer (`register_buffer`)" in error
    error = refused(tiny_client("rings", assembled(fedavg(), network=CountsCallsInPart)))
    assert "changed the attribute 'calls' of the model's dropout" in error
    node = tiny_client("rings", assembled(fedavg(), network=Caches))
    assert node.answer(request(1, True, {})).arrays


def test_an_optimiser_of_a_tensor_outside_the_model_is_refused(tiny_client: ClientMaker) -> None:
    def make(model: nn.Module) -> Optimizer:
        return SGD([*model.parameters(), nn.Parameter(torch.zeros(2, 3))], lr=0.1)

    error = refused(tiny_client("rings", assembled(fedavg(), training=With(make=make))))
    assert "trains a tensor of shape [2, 3] that is not a parameter of the model" in error


class HasExtraState(GIN):
    def get_extra_state(self) -> dict[str, int]:
        return {"calls": 1}

    def set_extra_state(self, state: Any) -> None:
        """Ignore it."""


def test_extra_state_is_refused(tiny_client: ClientMaker) -> None:
    error = refused(tiny_client("rings", assembled(fedavg(), network=HasExtraState)))
    assert "'_extra_state' is a dict, but only tensors can be saved and shared" in error
    assert "Use a buffer (`register_buffer`) instead of `get_extra_state`" in error


class ReturnsATuple(LocalTraining):
    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        return super().fit(session, penalty), 1.0  # type: ignore[return-value]


def test_a_loss_that_is_no_number_is_refused(tiny_client: ClientMaker) -> None:
    error = refused(tiny_client("rings", assembled(fedavg(), training=ReturnsATuple())))
    assert error == "ReturnsATuple.fit returned a tuple instead of the mean loss, a number."


class ValidatesOnly(GraphClassification):
    def evaluate(self, model: nn.Module, samples: GraphSamples, device: torch.device) -> Scores:
        return {"val": super().evaluate(model, samples, device)["val"]}


def test_an_evaluation_without_a_test_score_is_refused(tiny_client: ClientMaker) -> None:
    node = tiny_client("rings", assembled(fedavg(), ValidatesOnly()))
    error = refused(node, request(1, True, {}), request(2, True, {}))
    assert error == (
        "ValidatesOnly.evaluate returned no 'test', only val. It must return `val` and `test`."
    )


class Unregistered(GIN):
    """Draws a tensor that is neither a parameter nor a buffer."""

    def __init__(self, shape: GraphShape) -> None:
        super().__init__(shape)
        self.scale = torch.rand(shape.classes)

    def forward(self, batch: Batch) -> Tensor:
        return super().forward(batch) * self.scale


def answered(node: Client, message: Payload) -> Payload:
    torch.set_num_threads(1)  # another number may change the last bits
    return node.answer(message)


@pytest.mark.thorough
def test_an_unregistered_random_tensor_is_the_same_in_every_process(
    tiny_client: ClientMaker, tmp_path: Path
) -> None:
    node = tiny_client("blocks", assembled(fedavg(), network=Unregistered))
    warm, cold = warm_and_cold(node, tmp_path)
    assert warm == cold
    here = replace(node, snapshots=Snapshots(tmp_path / "here"))
    elsewhere = replace(node, snapshots=Snapshots(tmp_path / "elsewhere"))
    sent = here.answer(request(1, True, {})).arrays
    elsewhere.answer(request(1, True, {}))
    reply = here.answer(request(2, True, sent))
    with ProcessPoolExecutor(1, get_context("spawn")) as other:
        again = other.submit(answered, elsewhere, request(2, True, sent)).result()
    assert digest(again.arrays) == digest(reply.arrays)
    assert {**again.numbers, "memory": 0} == {**reply.numbers, "memory": 0}


class Strided(nn.Module):
    """Has a parameter that is the transpose of another tensor."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.arange(12.0).view(4, 3).t())


def test_moments_have_the_strides_of_their_parameter() -> None:
    def stepped(restored: bool) -> Tensor:
        client = strided_client()
        for step in range(1, 4):
            client.model.weight.grad = step * torch.ones(3, 4)
            client.optimiser.step()
            if restored:
                saved, client = snapshot(step, client), strided_client()
                restore(saved, client, torch.device("cpu"))
        weight: Tensor = client.model.state_dict()["weight"]
        return weight

    torch.testing.assert_close(stepped(restored=True), stepped(restored=False), rtol=0, atol=0)


def strided_client() -> ClientState:
    model = Strided()
    return ClientState(model, Adam(model.parameters(), lr=0.1, fused=True))
