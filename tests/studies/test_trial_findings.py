from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import ramet
from federations import with_all_states
from ramet.experiment import RunFolder
from ramet.experiment.local_engine import local_wire
from ramet.payload import only
from ramet.studies.trial.findings import reason_of_failure, undeclared
from ramet.studies.trial.wires import WatchedWire

OWN = Path(__file__).parents[1] / "own_methods.py"
IN_RAY = f"""<class 'ray.exceptions.RayTaskError(ClientAppException)'>:<'ray::ClientAppActor.run()
             ^^^^^^^^^^^^^
  File "/packages/flwr/clientapp/client_app.py", line 161, in __call__
    return self._registered_funcs[full_name](message, context)
           ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
  File "{OWN}", line 15, in fit
    loss = super().fit(session, penalty)
  File "/packages/torch/functional.py", line 3, in apply
    raise ValueError(text)
ValueError: the batch is empty

The above exception was the direct cause of the following exception:

  File "/packages/flwr/simulation/ray_actor.py", line 65, in run
    raise ClientAppException(str(ex)) from ex
flwr.clientapp.client_app.ClientAppException: the batch is empty'> (Flower's code 2)"""


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    result = ramet.run(f"{OWN}:decaying", rounds=1, out=tmp_path / "run", hidden=4)
    return RunFolder(result.folder)


@pytest.mark.parametrize(
    ("logged", "told"),
    [
        (f"0 of 1 (rings: {IN_RAY}).", "ValueError: the batch is empty (own_methods.py, line 15)."),
        ("no client takes part.", "no client takes part."),
    ],
)
def test_a_quoted_traceback_becomes_one_line(logged: str, told: str, run: RunFolder) -> None:
    assert reason_of_failure(run.path) is None
    with (run.path / "events.jsonl").open("a") as events:
        events.write(json.dumps({"event": "run failed", "reason": logged}) + "\n")
    assert reason_of_failure(run.path) == told


def test_undeclared_arrays_are_listed(run: RunFolder, tmp_path: Path) -> None:
    run = with_all_states(run.path, tmp_path / "logged")
    method = run.experiment().method
    wire = WatchedWire(local_wire(run), received={"layers.0.first.bias", "embed"})
    assert undeclared(replace(method, shared=only("*")), run, wire) is None
    assert undeclared(method, run, wire) == (
        "Not declared in `shared`, `up` or `down`: sent nothing; received embed."
    )
    narrow = replace(method, up=only("layers.[12].*", "layers.0.*.weight"))
    assert undeclared(narrow, run, wire) == (
        "Not declared in `shared`, `up` or `down`: sent layers.0.first.bias, layers.0.second.bias; "
        "received embed."
    )
