"""The in-process wire: when it waits for the disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from federations import Federation, climbing
from ramet.engine.messages import request
from ramet.engine.processes import local
from ramet.engine.processes.local import LocalWire
from ramet.engine.processes.workers import GrowingWire


@pytest.fixture
def synced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files and folders that are synced."""
    names: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        names.append(Path(f"/proc/self/fd/{descriptor}").readlink().name)
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fsync)
    return names


FILES = ["000001.safetensors.new", "a", "audit.jsonl"]
"""The state, its folder and the log; with the log's new name the folder once more."""


def ask(wire: LocalWire | GrowingWire, number: int) -> None:
    assert [*wire.exchange([("a", request(number, True, {}, last=number - 1))])]


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="names of open files are in /proc")
@pytest.mark.parametrize("growing", [False, True])
def test_only_the_files_of_long_rounds_are_synced(
    growing: bool, tmp_path: Path, synced: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    here = LocalWire(Federation(climbing(), tmp_path).client)
    wire = GrowingWire(here, lambda: here, rounds=3, clients=1) if growing else here
    ask(wire, 1)
    assert synced == [*FILES, "a"]
    synced.clear()
    ask(wire, 2)
    assert not synced
    monkeypatch.setattr(local, "_LONG", 0.0)
    ask(wire, 3)
    evaluated = ["000002.safetensors.new", "evaluated"]
    assert synced == [*evaluated, "000003.safetensors.new", "a", "audit.jsonl"]


def test_what_is_not_synced_is_in_files_all_the_same(tmp_path: Path) -> None:
    federation = Federation(climbing(), tmp_path)
    wire = LocalWire(federation.client)
    for number in (1, 2, 3):
        ask(wire, number)
    assert federation.client("a").snapshots.steps() == [1, 2, 3]
    assert len((tmp_path / "a" / "audit.jsonl").read_text().splitlines()) == 3
