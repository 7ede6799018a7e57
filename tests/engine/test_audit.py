from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ramet.engine import AuditLog, Node
from ramet.engine.audit import audit_entries
from ramet.engine.node import request
from ramet.errors import RametError
from ramet.methods import fedstar
from ramet.metrics import WORK

NodeMaker = Callable[..., Node]


def audited(tiny_node: NodeMaker, path: Path) -> Node:
    return replace(tiny_node("rings", fedstar()), audit=AuditLog(path, "run", "rings"))


def test_every_tensor_that_left_is_there_with_its_hash(
    tiny_node: NodeMaker, tmp_path: Path
) -> None:
    node = audited(tiny_node, tmp_path / "log" / "audit.jsonl")
    replies = [node.answer(request(1, True, {})), node.answer(request(2, False, {}))]
    found, cut_short = audit_entries(tmp_path)
    assert cut_short == 0
    assert [(one.run, one.client, one.round) for one in found] == [
        ("run", "rings", 1),
        ("run", "rings", 2),
    ]
    for told, reply in zip(found, replies, strict=True):
        assert [one.name for one in told.tensors] == list(reply.arrays)
        for one in told.tensors:
            array = reply.arrays[one.name]
            assert (one.shape, one.bytes, one.dtype) == (array.shape, array.nbytes, "float32")
            assert one.sha256 == hashlib.sha256(array.tobytes()).hexdigest()
    assert found[0].tensors
    assert all(one.name.startswith("structure.") for one in found[0].tensors)
    assert set(found[0].numbers) == {"weight", "loss", "up", "memory", *WORK}
    assert (found[1].tensors, found[1].notes) == ((), ("private",))


def test_it_is_on_the_disk_before_the_reply_leaves(
    tiny_node: NodeMaker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    node, real = audited(tiny_node, tmp_path / "audit.jsonl"), os.fsync
    node.answer(request(1, True, {}))
    synced: list[int] = []

    def fsync(handle: int) -> None:
        if Path(f"/proc/self/fd/{handle}").resolve().name == "audit.jsonl":
            synced.append((tmp_path / "audit.jsonl").read_bytes().count(b"\n"))
        real(handle)

    monkeypatch.setattr(os, "fsync", fsync)
    node.answer(request(2, True, {}))
    assert synced == [2]


def test_a_log_that_cannot_be_written_keeps_the_reply_back(
    tiny_node: NodeMaker, tmp_path: Path
) -> None:
    (tmp_path / "audit.jsonl").mkdir()
    with pytest.raises(IsADirectoryError):
        audited(tiny_node, tmp_path / "audit.jsonl").answer(request(1, True, {}))


def test_a_line_cut_short_spoils_no_other(tiny_node: NodeMaker, tmp_path: Path) -> None:
    node = audited(tiny_node, tmp_path / "audit.jsonl")
    node.answer(request(1, True, {}))
    with (tmp_path / "audit.jsonl").open("ab") as file:
        file.write(b'{"time": "20')
    node.answer(request(2, True, {}))
    found, cut_short = audit_entries(tmp_path)
    assert [one.round for one in found] == [1, 2]
    assert cut_short == 1


def test_no_log_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RametError, match=r"no audit.jsonl is below"):
        audit_entries(tmp_path)
