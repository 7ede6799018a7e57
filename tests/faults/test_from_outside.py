"""Quorum and audit log, tested through the command line."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from federations import with_all_states

DIVERGES = """
from dataclasses import replace
from ramet import fedstar

def diverges_at_trees(session):
    factor = float("nan") if session.randomness.who == "trees" else 0.0
    weights = [*session.model.parameters()]
    return lambda batch, output: factor * sum(one.sum() for one in weights)

def broken():
    return replace(fedstar(), name="broken", penalty=diverges_at_trees)
"""


def ramet(*words: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "ramet", *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.mark.parametrize(("quorum", "exit_code"), [(2, 0), (3, 2)])
def test_a_run_below_the_quorum_fails_with_an_exit_code(
    quorum: int, exit_code: int, tmp_path: Path
) -> None:
    (tmp_path / "broken.py").write_text(DIVERGES)
    method, out = f"{tmp_path}/broken.py:broken", tmp_path / "r"
    run = ramet("run", method, "--rounds", "2", "--quorum", str(quorum), "--out", out)
    assert run.returncode == exit_code, run.stderr
    committed = list((out / "server").glob("*.safetensors"))
    if exit_code:
        assert (
            "2 of 3 clients sent a valid reply in exchange 1, below the quorum of 3" in run.stderr
        )
        assert not committed
    else:
        records = [json.loads(line) for line in (out / "rounds.jsonl").read_text().splitlines()]
        assert [list(record["failed"]) for record in records] == [["trees"], ["trees"]]
        assert "is not finite" in records[0]["failed"]["trees"]
        assert max(path.stem for path in committed) == "000002"


@pytest.mark.thorough
def test_the_audit_of_a_fedstar_run_lists_structure_only(tmp_path: Path) -> None:
    assert ramet("run", "fedstar", "--rounds", "2", "--out", tmp_path / "r").returncode == 0
    refused = ramet("audit", "show", tmp_path / "r")
    assert refused.returncode == 1
    assert "A simulation over built-in data has none" in refused.stderr
    run = with_all_states(tmp_path / "r", tmp_path / "logged")
    shown = ramet("audit", "show", run.path, "--json").stdout
    replies = [json.loads(line) for line in shown.splitlines()]
    names = {tensor["name"] for reply in replies for tensor in reply["tensors"]}
    assert len(replies) == 3 * 3
    assert names
    assert all(name.startswith("structure.") for name in names)
