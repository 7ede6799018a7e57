"""`fedstar()` in an existing ServerApp, with a ClientApp that does not use Ramet."""

from __future__ import annotations

import json
import tempfile
from pathlib import Path

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, MetricRecord, RecordDict

from ramet.flower.programs import Flower, free_ports
from ramet.flower.strategy import _numbers, _payload

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
