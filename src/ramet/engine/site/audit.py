"""A log of what left a site: one line per reply, on the site's disk before the reply is sent."""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from ramet.disk import sync
from ramet.errors import RametError
from ramet.payload import Array, Payload

NAME = "audit.jsonl"
INTRODUCTIONS = "introductions"
"""The folder of the log of what sites tell before round 1."""


@dataclass(frozen=True)
class SentTensor:
    """A tensor that was sent, with a hash of its bytes in row-major order."""

    name: str
    shape: tuple[int, ...]
    dtype: str
    bytes: int
    sha256: str
    extra: bool = False
    """Whether it is one of the method's extras; otherwise it is a parameter or a buffer."""

    @staticmethod
    def of(name: str, array: Array, extra: bool = False) -> SentTensor:
        sha256 = hashlib.sha256(np.ascontiguousarray(array).data).hexdigest()
        return SentTensor(name, array.shape, str(array.dtype), array.nbytes, sha256, extra)

    @property
    def label(self) -> str:
        return f"{self.name} (extra)" if self.extra else self.name


@dataclass(frozen=True)
class AuditEntry:
    """One reply, and the run that asked for it. Of numbers and notes only the names are logged."""

    time: str
    run: str
    client: str
    round: int
    tensors: tuple[SentTensor, ...]
    numbers: tuple[str, ...]
    notes: tuple[str, ...]
    stage: str = ""
    """The stage of the round; empty for the reply to the message to train."""
    method: str = ""
    """The method with its options."""
    sharing: str = ""
    """The patterns of the shared arrays."""
    data: str = ""
    """The data folder or the TOML that describes the site's graphs."""
    run_config: str = ""
    """SHA-256 of the run config; empty in an engine without one."""
    told: tuple[str, ...] = ()
    """What a site sent about its tables before round 1: counts, sums and names of categories."""

    def line(self) -> str:
        return json.dumps({**vars(self), "tensors": [vars(tensor) for tensor in self.tensors]})

    @staticmethod
    def parse(line: str) -> AuditEntry:
        facts: dict[str, Any] = json.loads(line)
        tensors = [SentTensor(**{**t, "shape": tuple(t["shape"])}) for t in facts["tensors"]]
        kinds = ("numbers", "notes", "told")
        names = {kind: tuple(facts.get(kind, ())) for kind in kinds}
        return AuditEntry(**{**facts, **names, "tensors": tuple(tensors)})


@dataclass(frozen=True)
class AuditLog:
    """One client's log of one run. It is append-only."""

    path: Path
    run: str
    client: str
    method: str = ""
    sharing: str = ""
    data: str = ""
    run_config: str = ""

    def add(
        self, round_number: int, reply: Payload, stage: str = "", told: tuple[str, ...] = ()
    ) -> None:
        """Log a reply that is about to leave, and sync the log to disk."""
        entry = AuditEntry(
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            run=self.run,
            client=self.client,
            round=round_number,
            tensors=tuple(
                SentTensor.of(name, array, extra)
                for arrays, extra in ((reply.arrays, False), (reply.extras, True))
                for name, array in arrays.items()
            ),
            numbers=tuple(reply.numbers),
            notes=tuple(reply.notes),
            stage=stage,
            method=self.method,
            sharing=self.sharing,
            data=self.data,
            run_config=self.run_config,
            told=told,
        )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.exists()
        with self.path.open("ab") as file:
            file.write(_missing_newline(file.tell(), self.path))
            file.write(entry.line().encode() + b"\n")
        sync(self.path)
        if is_new:
            sync(self.path.parent)


def audit_logs(folder: Path) -> list[Path]:
    """All logs below a folder; there must be one."""
    logs = sorted(folder.rglob(NAME))
    if not logs:
        raise RametError(
            f"there is no {NAME} below {folder}. Give the folder of a site's state, or of a run on "
            "your own data. A simulation over built-in data has none."
        )
    return logs


def audit_entries(folder: Path) -> tuple[list[AuditEntry], int]:
    """The entries of all logs below a folder, and the number of unreadable lines.

    A crash may cut a line short. The reply of that line was not sent.
    """
    read = [read_entries(log) for log in audit_logs(folder)]
    entries = [entry for of_log, _ in read for entry in of_log]
    return entries, sum(unreadable for _, unreadable in read)


def read_entries(log: Path) -> tuple[list[AuditEntry], int]:
    """The entries of a log, and the number of unreadable lines."""
    lines = log.read_text(errors="replace").splitlines()
    entries = []
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            entries.append(AuditEntry.parse(line))
    return entries, len([line for line in lines if line]) - len(entries)


def _missing_newline(size: int, path: Path) -> bytes:
    if not size:
        return b""
    with path.open("rb") as file:
        file.seek(size - 1)
        return b"" if file.read() == b"\n" else b"\n"
