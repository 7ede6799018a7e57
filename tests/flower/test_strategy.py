"""`fedstar()` in an existing ServerApp, with a ClientApp that does not use Ramet."""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Message, MetricRecord, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity

from ramet.errors import RametError
from ramet.experiment.named import method_factory
from ramet.flower.programs import Flower, free_ports
from ramet.flower.strategy import MethodStrategy, _numbers, _payload
from ramet.methods import METHODS, fedadam, fedavg, fedstar, gcfl
from ramet.methods.fedda import Restart
from ramet.options import allow_code
from ramet.payload import Arrays, Payload, only
from ramet.rules.merging import Reply, WeightedMean
from ramet.rules.method import Method
from ramet.rules.server import Server
from ramet.training.local import LocalTraining

APP = """
import numpy as np
from flwr.app import Array, ArrayRecord, Context, Message, MetricRecord, RecordDict
from flwr.clientapp import ClientApp

app = ClientApp()

@app.train()
def train(message: Message, context: Context) -> Message:
    number = int(context.node_config["partition-id"])
    arrays = message.content["arrays"]
    assert sorted(arrays) == ["structure.a", "structure.b"], sorted(arrays)
    replies = {name: Array(array.numpy() + np.float32(number)) for name, array in arrays.items()}
    if number == 2:  # sends an invalid reply
        replies["structure.a"] = Array(np.full(2, np.nan, np.float32))
    metrics = MetricRecord({"num-examples": 1 + 2 * number, "loss": float(number)})
    content = RecordDict({"arrays": ArrayRecord(replies), "metrics": metrics})
    return Message(content, reply_to=message)

@app.evaluate()
def evaluate(message: Message, context: Context) -> Message:
    value = float(message.content["arrays"]["structure.a"].numpy()[0])
    metrics = MetricRecord({"num-examples": 1, "seen": value})
    return Message(RecordDict({"metrics": metrics}), reply_to=message)
"""

SERVER = """
import json
from pathlib import Path

import numpy as np
from flwr.app import Array, ArrayRecord, Context
from flwr.serverapp import Grid, ServerApp

from ramet import fedstar
from ramet.flower.strategy import MethodStrategy

app = ServerApp()

@app.main()
def main(grid: Grid, context: Context) -> None:
    start = {"structure.a": np.zeros(2), "structure.b": np.ones(1), "private.c": np.full(1, 9.0)}
    arrays = ArrayRecord({k: Array(v.astype(np.float32)) for k, v in start.items()})
    strategy = MethodStrategy(fedstar(), min_nodes=3)
    result = strategy.start(grid=grid, initial_arrays=arrays, num_rounds=2)
    facts = {name: array.numpy().tolist() for name, array in result.arrays.items()}
    facts["loss"] = result.train_metrics_clientapp[1]["loss"]
    facts["seen"] = result.evaluate_metrics_clientapp[2]["seen"]
    Path(context.run_config["out"]).write_text(json.dumps(facts))
"""

PYPROJECT = """
[project]
name = "existing"
version = "1.0.0"
description = "an existing app"
license = "MIT"

[tool.flwr.app]
publisher = "existing"

[tool.flwr.app.components]
serverapp = "existing.server:app"
clientapp = "existing.client:app"

[tool.flwr.app.config]
out = ""
"""


@pytest.mark.e2e
def test_fedstar_in_an_existing_server_app(tmp_path: Path) -> None:
    app = tmp_path / "app"
    (app / "existing").mkdir(parents=True)
    (app / "pyproject.toml").write_text(PYPROJECT)
    (app / "existing" / "__init__.py").write_text("")
    (app / "existing" / "client.py").write_text(APP)
    (app / "existing" / "server.py").write_text(SERVER)
    (port,) = free_ports(1)
    with tempfile.TemporaryDirectory(prefix="ramet-") as home:
        flower = Flower(Path(home), tmp_path / "logs")
        try:
            with flower.superlink(port, simulated=True):
                out = tmp_path / "facts.json"
                flower.run(app, {"out": str(out)}, simulated_clients=3, on_poll=lambda: None)
        finally:
            flower.kill_leftovers()
    # Clients 0, 1, 2 add their number and have 1, 3, 5 examples. Client 2's reply is refused, so
    # each round adds (1*0 + 3*1) / 4 = 0.75. The private array is never sent and does not change.
    facts = json.loads(out.read_text())
    assert facts["structure.a"] == [1.5, 1.5]
    assert facts["structure.b"] == [2.5]
    assert facts["private.c"] == [9.0]
    assert facts["loss"] == 0.75
    assert facts["seen"] == 1.5


def test_spared_arrays_are_left_out_even_if_a_node_sends_them() -> None:
    arrays = {name: Array(np.zeros(1, np.float32)) for name in ("structure.a", "structure.b")}
    metrics = MetricRecord({"num-examples": 3})
    content = RecordDict({"arrays": ArrayRecord(arrays), "metrics": metrics})
    reply = _payload(content, without=["structure.a"])
    assert reply is not None
    assert list(reply.arrays) == ["structure.b"]
    assert reply.numbers == {"weight": 3}


def test_an_activation_receives_the_numbers_of_a_node() -> None:
    metrics = MetricRecord({"num-examples": 3, "loss": 0.5, "each": [1.0, 2.0]})
    numbers = _numbers(RecordDict({"metrics": metrics}))
    assert numbers == {"num-examples": 3, "loss": 0.5, "weight": 3}


@pytest.fixture
def _as_in_a_server_app(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set the ids of the current task, which Flower's messages carry."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)


@dataclass(frozen=True)
class Nodes:
    """The part of Flower's Grid that the strategy uses."""

    ids: tuple[int, ...] = (1, 2)

    def get_node_ids(self) -> Iterable[int]:
        return self.ids


def initial() -> ArrayRecord:
    start = {"layers.0.w": np.zeros(2), "structure.w": np.zeros(2), "private": np.full(1, 9.0)}
    return ArrayRecord({name: Array(array.astype(np.float32)) for name, array in start.items()})


def replied(message: Message) -> Message:
    """Node 1 adds 1 to what it received, node 2 adds 3; both have one example."""
    step = np.float32({1: 1, 2: 3}[message.metadata.dst_node_id])
    received = cast(ArrayRecord, message.content["arrays"])
    sent = {name: Array(array.numpy() + step) for name, array in received.items()}
    metrics = MetricRecord({"num-examples": 1})
    return Message(RecordDict({"arrays": ArrayRecord(sent), "metrics": metrics}), reply_to=message)


def trained(
    method: Method, rounds: int, buffers: Iterable[str] = ()
) -> tuple[ArrayRecord, list[list[Message]]]:
    """The arrays in Flower's result, and the messages of each round."""
    strategy, arrays, messages = MethodStrategy(method, buffers=buffers), initial(), []
    for number in range(1, rounds + 1):
        grid = cast(Grid, Nodes())
        sent = [*strategy.configure_train(number, arrays, ConfigRecord(), grid)]
        merged, _ = strategy.aggregate_train(number, [replied(message) for message in sent])
        assert merged is not None
        arrays = merged
        messages.append(sent)
    return arrays, messages


def names_in(message: Message) -> list[str]:
    return sorted(cast(ArrayRecord, message.content["arrays"]))


@pytest.mark.usefixtures("_as_in_a_server_app")
def test_the_result_of_momentum_is_what_the_server_would_send(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "your-own-method.md").read_text()
    code = re.search(r"```python\n(# momentum\.py\n.*?)```", page, flags=re.DOTALL)
    assert code
    (tmp_path / "momentum.py").write_text(code[1])
    allow_code(f"{tmp_path}/momentum.py:momentum")
    method = method_factory(f"{tmp_path}/momentum.py:momentum")(beta=0.5)
    arrays, _ = trained(method, rounds=2)
    # The mean update is 2. Round 1: 0 + 2, velocity 2. Round 2: 2 + 2 + 0.5 * 2 = 5.
    assert sorted(arrays) == ["layers.0.w", "private", "structure.w"]
    assert arrays["structure.w"].numpy().tolist() == [5, 5]
    assert arrays["private"].numpy().tolist() == [9]


@pytest.mark.usefixtures("_as_in_a_server_app")
def test_the_result_of_gcfl_is_what_the_server_would_send() -> None:
    arrays, _ = trained(replace(gcfl(), shared=only("layers.*")), rounds=2)
    assert sorted(arrays) == ["layers.0.w", "private", "structure.w"]
    assert arrays["layers.0.w"].numpy().tolist() == [4, 4]  # two mean updates of 2


@pytest.mark.usefixtures("_as_in_a_server_app")
def test_buffers_are_averaged_by_fedadam() -> None:
    """Updates of 1 and 3 have the mean 2; a step of Adam has another length."""
    arrays, _ = trained(fedadam(), rounds=1, buffers=["private"])
    assert arrays["private"].numpy().tolist() == [9 + 2]
    assert arrays["layers.0.w"].numpy()[0] != 2


@pytest.mark.parametrize("name", ["fedprox", "fedsage+", "fgssl", "adafgl"])
def test_penalties_are_not_dropped(name: str) -> None:
    with pytest.raises(RametError, match=f"{re.escape(name)} has `penalty`, which needs Ramet's"):
        MethodStrategy(METHODS[name]())


class OtherTraining(LocalTraining):
    """A training of its own."""


def test_a_training_of_its_own_is_not_dropped() -> None:
    with pytest.raises(RametError, match="fedavg has `training`"):
        MethodStrategy(replace(fedavg(), training=OtherTraining()))


@pytest.mark.usefixtures("_as_in_a_server_app")
def test_a_sharing_rule_is_applied_to_the_initial_arrays() -> None:
    """All nodes have arrays of the same sizes, so FedAvg shares all of them."""
    arrays, messages = trained(fedavg(), rounds=1)
    assert names_in(messages[0][0]) == ["layers.0.w", "private", "structure.w"]
    assert arrays["private"].numpy().tolist() == [11]


@dataclass(frozen=True)
class FirstReply:
    """Merges the first reply only."""

    def start(self, shared: Arrays) -> Payload:
        return WeightedMean().start(shared)

    def ask(self, state: Payload, client: str) -> Arrays:
        return WeightedMean().ask(state, client)

    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        return Payload({**state.arrays, **next(iter(replies))[1].arrays})


@pytest.mark.usefixtures("_as_in_a_server_app")
def test_a_rule_must_read_all_replies() -> None:
    with pytest.raises(RametError, match=r"FirstReply\.merge returned before it had read all"):
        trained(replace(fedstar(), merging=FirstReply()), rounds=1)


@dataclass(frozen=True)
class Personal(FirstReply):
    """Knows only clients that have replied."""

    def ask(self, state: Payload, client: str) -> Arrays:
        return {"structure.w": state.arrays[f"{client}/structure.w"]}


@pytest.mark.usefixtures("_as_in_a_server_app")
def test_a_rule_must_answer_new_clients() -> None:
    with pytest.raises(RametError, match=r"Personal\.ask failed for a new client"):
        trained(replace(fedstar(), merging=Personal()), rounds=1)


@pytest.mark.usefixtures("_as_in_a_server_app")
def test_only_declared_directions_are_sent_and_merged() -> None:
    """Nodes reply with all they received; an array that is only sent down is left out."""
    shared = only("layers.*", "structure.*")
    method = replace(fedstar(), shared=shared, up=only("structure.*"))
    arrays, messages = trained(method, rounds=2)
    assert names_in(messages[1][0]) == ["layers.0.w", "structure.w"]
    assert arrays["structure.w"].numpy().tolist() == [4, 4]
    assert arrays["layers.0.w"].numpy().tolist() == [0, 0]
    one_way = replace(fedstar(), shared=shared, up=only("layers.*"), down=only("layers.*"))
    assert names_in(trained(one_way, rounds=2)[1][1][0]) == ["layers.0.w"]


@pytest.mark.usefixtures("_as_in_a_server_app")
def test_with_keep_own_spared_arrays_are_not_sent() -> None:
    """After round 1, node 1's updates are the smaller ones: it becomes inactive and is spared."""
    spares: dict[str, Any] = {"alpha": 0.5, "beta": 0.0, "train_away": True}
    for keep_own, names in ((True, []), (False, ["structure.w"])):
        method = replace(fedstar(), activation=Restart(keep_own=keep_own, **spares))
        _, messages = trained(method, rounds=2)
        assert [names_in(message) for message in messages[1]] == [names, ["structure.w"]]
