"""Tests that every method in METHODS must pass, on its own task or on all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from ramet.engine.messages import request
from ramet.engine.processes.local import LocalWire
from ramet.engine.server.rounds import Rounds
from ramet.engine.server.wire import Answer
from ramet.engine.site.client import Client
from ramet.engine.site.inner_gates import Declared
from ramet.engine.site.request import NotSharedError
from ramet.engine.start import start_extras, start_model, start_shared
from ramet.engine.store.checkpoint import Snapshots
from ramet.methods import METHODS
from ramet.methods.adafgl import TwoPhases
from ramet.methods.opfgl import AdaptiveDistillation, SurrogateGraph
from ramet.metrics import WORK, Record
from ramet.models.settings import SpectralNetwork
from ramet.models.shape import FIRST_TASKS
from ramet.payload import Payload, only
from ramet.rules.method import AssembledMethod, Method, assembled
from ramet.tasks import TASKS, Samples
from ramet.training.local import LocalTraining

CLIENTS = ("rings", "trees", "blocks")
ClientMaker = Callable[..., Client]
ON_ALL_TASKS = ("fedavg", "fedda", "local")  # test_any_task.py runs the others on all tasks
SERVER_MOVES = ("fedadam", "fedyogi", "scaffold", "fedproto", "fedtgp", "fedssp", "fedspray")
SMALLER: dict[str, dict[str, Any]] = {
    "adafgl": {"training": TwoPhases(shared_rounds=1, personal_epochs=1)},
    "fedssp": {"network": SpectralNetwork(hidden=64, layers=1)},
    "o-pfgl": {
        "training": LocalTraining(lr=0.01, epochs=2),
        "surrogate": SurrogateGraph(server_steps=10),
        "distillation": AdaptiveDistillation(surrogate_epochs=5),
    },
}
"""Arguments of methods that would take long, or would not do all they do in a few rounds."""
CASES = [
    (name, task)
    for name, factory in sorted(METHODS.items())
    for task in FIRST_TASKS.values()
    if ((own := factory().task) is None and (name in ON_ALL_TASKS or task == "node-classification"))
    or (own is not None and own.name == task)
]


@pytest.fixture(params=CASES, ids=lambda case: " on ".join(case))
def method(request: pytest.FixtureRequest) -> AssembledMethod:
    name, task = request.param
    made = METHODS[name](**SMALLER.get(name, {}))
    assert made.name == name
    return assembled(made, TASKS[task](), same_schema=task != "graph-classification")


def rounds_of(
    method: AssembledMethod, node: Client, folder: Path, clients: tuple[str, ...]
) -> Rounds:
    shape = method.task.shape(node.samples)
    return Rounds(
        method=method,
        clients=clients,
        rounds=3,
        seed=0,
        start=start_shared(method, shape, 0),
        snapshots=Snapshots(folder),
        extras=start_extras(method, shape, 0),
        network=lambda: start_model(method, shape, 0, ""),
        shape=shape,
    )


def _private_array(method: AssembledMethod) -> tuple[AssembledMethod, str]:
    """The method, and an array that it keeps private; the last one if it shares everything."""
    names = [*method.model(method.task.plain_shape(method.inputs)).state_dict()]
    private = [name for name in names if name not in method.shared]
    if private:
        return method, private[-1]
    return replace(method, shared=only(*names[:-1])), names[-1]


def test_replies_hold_only_shared_arrays_and_are_counted(
    method: AssembledMethod, tiny_client: ClientMaker
) -> None:
    node = tiny_client("rings", method)
    reply = node.answer(request(1, True, {}))
    assert all(name in method.shared for name in reply.arrays)
    assert bool(reply.extras) == (method.extras is not None)
    assert reply.numbers["up"] == sum(array.nbytes for array in reply.tensors)
    assert reply.numbers["weight"] == method.task.weight(node.samples)
    assert set(reply.numbers) == {"up", "weight", "loss", "memory", *WORK}
    assert not reply.notes


def test_a_client_accepts_only_shared_arrays(
    method: AssembledMethod, tiny_client: ClientMaker
) -> None:
    method, private = _private_array(method)
    node = tiny_client("rings", method)
    with pytest.raises(NotSharedError, match=f"rings refuses to accept '{private}'"):
        node.answer(request(1, True, {private: np.zeros(2)}))


def test_a_client_sends_only_shared_arrays(
    method: AssembledMethod, tiny_client: ClientMaker
) -> None:
    method, private = _private_array(method)
    node = tiny_client("rings", method)
    with pytest.raises(NotSharedError, match=f"refuses to send '{private}'.*Declare it"):
        Declared().check(
            node.request(request(1, True, {})), Payload({private: np.zeros(2, np.float32)})
        )


def test_initial_shared_arrays_are_equal_and_private_ones_differ(
    method: AssembledMethod, tiny_samples: Callable[[str, Method], Samples]
) -> None:
    states = [
        start_model(method, method.task.shape(tiny_samples(client, method)), 0, client).state_dict()
        for client in CLIENTS
    ]
    first, second, _ = states
    for name in first:
        same = first[name].shape == second[name].shape and torch.equal(first[name], second[name])
        constant = bool((first[name] == first[name].flatten()[0]).all())
        assert constant or same == (name in method.shared)


def test_a_single_client_equals_local_training(
    method: AssembledMethod, tiny_client: ClientMaker, tmp_path: Path
) -> None:
    if method.stages:
        pytest.skip("before training, the server sends what a client alone does not have")
    federated = tiny_client("trees", method)
    records: list[Record] = []
    wire = LocalWire(lambda _: federated)
    rounds_of(method, federated, tmp_path / "server", ("trees",)).run(wire, records.append)
    local = replace(federated, snapshots=Snapshots(tmp_path / "local"))
    losses = [local.answer(request(number, True, {})).numbers["loss"] for number in (1, 2, 3)]
    same = 1 if method.name in SERVER_MOVES else 3  # the server changes what is sent in round 2
    assert [record.trained["trees"]["loss"] for record in records][:same] == losses[:same]


def test_training_reduces_the_loss(method: AssembledMethod, tiny_client: ClientMaker) -> None:
    assert isinstance(method.training, LocalTraining)
    if method.training.lr < 1e-3:  # too small for twenty rounds
        method = replace(method, training=replace(method.training, lr=0.01))
    node = tiny_client("rings", method)
    losses = [node.answer(request(number, True, {})).numbers["loss"] for number in range(1, 21)]
    assert losses[-1] < losses[0] * 0.8


def test_failures_and_invalid_replies_do_not_stop_a_round(
    method: AssembledMethod, tiny_client: ClientMaker, tmp_path: Path
) -> None:
    nodes = {client: tiny_client(client, method) for client in CLIENTS}

    class FaultyWire(LocalWire):
        def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
            for client, reply in super().exchange(requests):
                assert isinstance(reply, Payload)
                if client == "trees":
                    yield client, "the machine is on fire"
                elif client == "blocks":
                    yield client, replace(reply, numbers={**reply.numbers, "weight": float("nan")})
                else:
                    yield client, reply

    records: list[Record] = []
    rounds = rounds_of(method, nodes["rings"], tmp_path / "server", CLIENTS)
    rounds.run(FaultyWire(lambda client: nodes[client]), records.append)
    assert len(records) == 3
    for record in records:
        assert list(record.trained) == ["rings"]
        assert record.failed == {
            "blocks": "weight is not finite",
            "trees": "the machine is on fire",
        }
