"""The export of audit logs, repeated as a shipper would."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from ramet.cli.main import app
from ramet.engine.site.audit import NAME, AuditLog
from ramet.engine.site.audit_export import AuditExport
from ramet.errors import RametError
from ramet.payload import Payload


@pytest.fixture
def log(tmp_path: Path) -> AuditLog:
    found = AuditLog(tmp_path / "state" / "clients" / "run" / "north" / NAME, "run", "north")
    found.add(1, reply())
    return found


def reply() -> Payload:
    return Payload({"structure.weight": np.ones((2, 3), np.float32)}, {"loss": 0.5})


def export(tmp_path: Path) -> list[dict[str, Any]]:
    words = ["audit", "export", str(tmp_path / "state"), "--cursor", str(tmp_path / "shipped.json")]
    done = CliRunner().invoke(app, words, catch_exceptions=False)
    assert done.exit_code == 0
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_a_rerun_gives_only_new_entries(log: AuditLog, tmp_path: Path) -> None:
    (first,) = export(tmp_path)
    assert first["id"] == f"clients/run/north/{NAME}:0"
    assert (first["run"], first["client"], first["round"]) == ("run", "north", 1)
    assert first["tensors"][0]["bytes"] == 24
    assert export(tmp_path) == []
    log.add(2, reply())
    AuditLog(log.path.parents[1] / "south" / NAME, "run", "south").add(2, reply())
    second = export(tmp_path)
    assert [(entry["client"], entry["round"]) for entry in second] == [("north", 2), ("south", 2)]
    assert len({entry["id"] for entry in (first, *second)}) == 3


def test_what_was_not_delivered_is_exported_again(log: AuditLog, tmp_path: Path) -> None:
    cursor = tmp_path / "shipped.json"
    undelivered = list(AuditExport(tmp_path / "state", cursor).lines())
    repeated = AuditExport(tmp_path / "state", cursor)
    assert list(repeated.lines()) == undelivered
    repeated.commit()
    assert list(AuditExport(tmp_path / "state", cursor).lines()) == []


def test_a_line_is_exported_when_it_is_complete(log: AuditLog, tmp_path: Path) -> None:
    complete = log.path.read_bytes()
    log.path.write_bytes(complete + complete[:-20])
    cut_short = AuditExport(tmp_path / "state", tmp_path / "shipped.json")
    assert len(list(cut_short.lines())) == 1
    cut_short.commit()
    log.add(2, reply())  # after a crash: starts a new line first
    after = AuditExport(tmp_path / "state", tmp_path / "shipped.json")
    assert [json.loads(line)["round"] for line in after.lines()] == [2]
    assert after.unreadable == 1


def test_a_restored_log_keeps_its_ids(log: AuditLog, tmp_path: Path) -> None:
    backup = log.path.read_bytes()
    log.add(2, reply())
    (first, _) = export(tmp_path)
    log.path.write_bytes(backup)
    assert export(tmp_path) == [first]


def test_another_file_is_not_taken_for_a_cursor(log: AuditLog, tmp_path: Path) -> None:
    (tmp_path / "other").write_text("[1]")
    with pytest.raises(RametError, match="is not a cursor"):
        list(AuditExport(tmp_path / "state", tmp_path / "other").lines())
