"""The events that a site's client app logs for real messages."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from flwr.app import Context, Message, MessageType, RecordDict
from flwr.supercore.task_identity import TaskIdentity

from own_sites import graph_site, messy_site
from ramet.data.own.preparation import agreed
from ramet.data.own.site import read_site
from ramet.engine.messages import request
from ramet.engine.site.audit import audit_entries
from ramet.errors import RametError
from ramet.events import read_lines
from ramet.experiment import checked_settings
from ramet.flower.client_app import app
from ramet.flower.guard import EVENTS_VARIABLE, LIST_VARIABLE
from ramet.flower.records import PREPARATION, from_records, to_records
from ramet.flower.run_config import to_run_config
from ramet.payload import Payload
from ramet.report.run_tables import audit_told_table
from table_cells import rows

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


def send(
    tmp_path: Path,
    kind: str,
    data: Path,
    setting: str,
    *,
    named: str = "fedstar",
    notes: dict[str, str] | None = None,
    **changed: Any,
) -> Payload:
    """Send a message of round 1 to the site north, or to rings if the setting is tiny."""
    client = "rings" if setting == "tiny" else "north"
    options = {"sites": client} if setting == "own" else {}
    settings = checked_settings(
        method=named, setting=setting, rounds=1, engine="superlink", data=data, options=options
    )
    config = {**to_run_config(settings, tmp_path), **changed}
    node: dict[str, Any] = {"client": client, "state": str(tmp_path / "state"), "data": str(data)}
    context = Context(1, 1, node, RecordDict(), config)
    payload = request(1, True, {})
    content = to_records(Payload(payload.arrays, payload.numbers, {"run": RUN, **(notes or {})}))
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


@pytest.mark.usefixtures("events")
def test_sums_of_columns_are_in_the_audit_log_before_they_leave(tmp_path: Path) -> None:
    toml = messy_site(tmp_path / "north", 0, 50)
    reply = send(tmp_path, MessageType.QUERY, toml, "own", named="fedavg")
    (entry,), unreadable = audit_entries(tmp_path / "state")
    assert (entry.stage, entry.round, entry.client, unreadable) == ("introduction", 0, "north", 0)
    assert entry.notes == ("client", "form", "columns")
    assert entry.told == read_site(toml).sums.in_words()
    assert entry.told[1].startswith("patient.age: count 50, sum ")
    assert "patient.smoker: nothing" in entry.told
    assert entry.line().count("rare-0") == 0
    assert "rare-0" not in reply.notes["columns"]
    table = audit_told_table([entry])
    assert table is not None
    assert rows(table)[0] == ("north", entry.told[0])


@pytest.mark.usefixtures("events")
def test_whether_a_class_is_rare_does_not_leave_with_privacy(tmp_path: Path) -> None:
    toml = graph_site(tmp_path / "north", graphs=30)
    labels = [f"g{number},{'ring' if number < 3 else 'path'}" for number in range(30)]
    (toml.parent / "graphs.csv").write_text("\n".join(["id,label", *labels]) + "\n")
    assert read_site(toml).sums.rare_classes
    plain = send(tmp_path, MessageType.QUERY, toml, "own", named="fedavg")
    assert "rare_classes" in plain.notes["columns"]
    dp = "unit=graph,epsilon=4,delta=1e-5"
    private = send(tmp_path, MessageType.QUERY, toml, "own", named="fedavg", dp=dp)
    assert "columns" not in private.notes
    assert private.notes["form"] == plain.notes["form"]


@pytest.mark.usefixtures("events")
def test_a_hostile_preparation_is_refused_before_training(tmp_path: Path) -> None:
    toml = messy_site(tmp_path / "north", 0, 50)
    agreement = agreed({"north": read_site(toml).sums}).text()
    scale = f'"scale":{agreed({"north": read_site(toml).sums}).types["patient"]["age"].scale}'
    assert scale in agreement
    for hostile, reason in (
        (agreement.replace(scale, '"scale":0.0'), "types.patient.age.scale: Input should be"),
        (agreement.replace(scale, '"scale":1e-300'), "scale of the column patient.age"),
        (agreement.replace('"kind":"date"', '"kind":"flag"'), "data has problems"),
        ('{"types":{"patient":{}}}', "data has problems"),
        ("[" * 100_000, "preparation of columns is not valid"),
    ):
        with pytest.raises(RametError, match=reason) as refused:
            send(
                tmp_path,
                MessageType.TRAIN,
                toml,
                "own",
                named="fedavg",
                notes={PREPARATION: hostile},
            )
        assert "\n" not in str(refused.value)
    assert not list((tmp_path / "state").rglob("audit.jsonl"))  # nothing left
