from __future__ import annotations

import hashlib
import os
import shlex
from collections.abc import Callable
from pathlib import Path

import pytest

from command_line import ramet
from federations import protected
from own_sites import messy_site
from ramet import run as run_method
from ramet.engine.messages import request
from ramet.engine.site.audit import AuditLog, audit_entries
from ramet.engine.site.client import Client
from ramet.errors import RametError
from ramet.methods import fedstar
from ramet.metrics import WORK

ClientMaker = Callable[..., Client]


def audited(tiny_client: ClientMaker, path: Path) -> Client:
    return protected(tiny_client("rings", fedstar()), audit=AuditLog(path, "run", "rings"))


def test_every_sent_tensor_is_logged_with_its_hash(
    tiny_client: ClientMaker, tmp_path: Path
) -> None:
    node = audited(tiny_client, tmp_path / "log" / "audit.jsonl")
    replies = [node.answer(request(1, True, {})), node.answer(request(2, False, {}))]
    entries, unreadable = audit_entries(tmp_path)
    assert unreadable == 0
    assert [(entry.run, entry.client, entry.round) for entry in entries] == [
        ("run", "rings", 1),
        ("run", "rings", 2),
    ]
    for entry, reply in zip(entries, replies, strict=True):
        assert [tensor.name for tensor in entry.tensors] == list(reply.arrays)
        for tensor in entry.tensors:
            array = reply.arrays[tensor.name]
            logged = (tensor.shape, tensor.bytes, tensor.dtype)
            assert logged == (array.shape, array.nbytes, "float32")
            assert tensor.sha256 == hashlib.sha256(array.tobytes()).hexdigest()
    assert entries[0].tensors
    assert all(tensor.name.startswith("structure.") for tensor in entries[0].tensors)
    assert set(entries[0].numbers) == {"weight", "loss", "up", "memory", *WORK}
    assert (entries[1].tensors, entries[1].notes) == ((), ("private",))


def test_the_entry_is_synced_before_the_reply_is_sent(
    tiny_client: ClientMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, real = audited(tiny_client, tmp_path / "audit.jsonl"), os.fsync
    node.answer(request(1, True, {}))
    synced: list[int] = []

    def fsync(handle: int) -> None:
        if Path(f"/proc/self/fd/{handle}").resolve().name == "audit.jsonl":
            synced.append((tmp_path / "audit.jsonl").read_bytes().count(b"\n"))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    node.answer(request(2, True, {}))
    assert synced == [2]


def test_no_reply_is_sent_if_the_log_cannot_be_written(
    tiny_client: ClientMaker, tmp_path: Path
) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    with pytest.raises(IsADirectoryError):
        audited(tiny_client, tmp_path / "audit.jsonl").answer(request(1, True, {}))


def test_a_truncated_line_does_not_affect_others(tiny_client: ClientMaker, tmp_path: Path) -> None:
    node = audited(tiny_client, tmp_path / "audit.jsonl")
    node.answer(request(1, True, {}))
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b'{"time": "20')
    node.answer(request(2, True, {}))
    entries, unreadable = audit_entries(tmp_path)
    assert [entry.round for entry in entries] == [1, 2]
    assert unreadable == 1


def test_a_missing_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RametError, match=r"there is no audit.jsonl below"):
        audit_entries(tmp_path)


def test_a_local_run_lists_what_sites_told_before_round_1(tmp_path: Path) -> None:
    """The same as at a site of a consortium: sums of columns, and whether a class is rare."""
    files = [messy_site(tmp_path / name, seed, 60) for seed, name in enumerate(("north", "south"))]
    table = files[0].parent / "patients.csv"
    head, *rows = table.read_text().splitlines()
    rows = [row.replace(",ill", ",healthy") if n >= 10 else row for n, row in enumerate(rows)]
    table.write_text("\n".join([head, *rows]) + "\n")
    run = run_method(
        "fedavg", "own", rounds=1, out=tmp_path / "run", sites=shlex.join(map(str, files))
    )
    entries, _ = audit_entries(run.folder)
    told = {entry.client: entry.told for entry in entries if entry.told}
    assert told.keys() == {"north", "south"}
    columns = ("admitted", "age", "bmi", "smoker", "ward")
    assert [line.split(":")[0] for line in told["south"]] == [f"patient.{c}" for c in columns]
    assert told["south"][1].startswith("patient.age: count 60, sum ")
    assert told["north"][-1] == "classes: one is rare; which one is not told"
    shown = ramet("audit", "show", str(run.folder)).stdout
    assert "told before round 1" in shown
    assert "one is rare" in shown
