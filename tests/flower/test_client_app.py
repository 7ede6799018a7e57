"""The events that a site's client app logs for real messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from own_sites import graph_site
from ramet.engine.node import request
from ramet.errors import RametError
from ramet.events import read_lines
from ramet.experiment import checked_settings
from ramet.flower.client_app import app
from ramet.flower.guard import EVENTS_VARIABLE, LIST_VARIABLE
from ramet.flower.records import from_records, to_records, to_run_config
from ramet.payload import Payload

RUN = "0" * 32


@pytest.fixture
def events(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The event log of a site with a guard."""
    for name in ("_run_id", "_node_id", "_task_id"):
        monkeypatch.setattr(TaskIdentity, name, 1)
    monkeypatch.setenv(EVENTS_VARIABLE, str(tmp_path / "logs" / "events.jsonl"))
    monkeypatch.setenv(LIST_VARIABLE, str(tmp_path / "accepted.txt"))
    (tmp_path / "accepted.txt").write_text("")
    return tmp_path / "logs" / "events.jsonl"


def send(tmp_path: Path, kind: str, data: Path, setting: str, **changed: Any) -> Payload:
    """Send a message of round 1 to the site north, or to rings if the setting is tiny."""
    client = "rings" if setting == "tiny" else "north"
    options = {"sites": client} if setting == "own" else {}
    settings = checked_settings(
        method="fedstar", setting=setting, rounds=1, engine="superlink", data=data, options=options
    )
    config = {**to_run_config(settings, tmp_path), **changed}
    node: dict[str, Any] = {"client": client, "state": str(tmp_path / "state"), "data": str(data)}
    context = Context(1, 1, node, RecordDict(), config)
    payload = request(1, True, {})
    content = to_records(Payload(payload.arrays, payload.numbers, {"run": RUN}))
    return from_records(app(Message(content, 1, kind), context).content)


def test_an_answered_message(events: Path, tmp_path: Path) -> None:
    reply = send(tmp_path, MessageType.TRAIN, tmp_path, "tiny")
    (event,) = read_lines(events)
    assert (event["event"], event["level"]) == ("message answered", "info")
    assert (event["run"], event["round"], event["client"]) == (RUN, 1, "rings")
    assert event["bytes"] == reply.nbytes == 58_368
    assert event["seconds"] > 0


def test_a_method_that_is_not_accepted(events: Path, tmp_path: Path) -> None:
    with pytest.raises(RametError, match="does not accept"):
        send(tmp_path, MessageType.TRAIN, tmp_path, "tiny", method="os:system")
    (event,) = read_lines(events)
    assert (event["event"], event["level"]) == ("message failed", "error")
    assert "does not accept the method 'os:system'" in event["reason"]


def test_a_data_problem_is_logged_without_data(events: Path, tmp_path: Path) -> None:
    toml = graph_site(tmp_path / "north", ("mass",))
    with (toml.parent / "atoms.csv").open("a") as atoms:
        atoms.write("9,g0,secret\n")
    reply = send(tmp_path, MessageType.QUERY, toml, "own")
    assert reply.notes["form"] == ""
    assert [event["event"] for event in read_lines(events)] == ["data problem", "message answered"]
    assert "secret" not in events.read_text()
