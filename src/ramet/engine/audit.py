"""What left a site: one line per reply, on the site's own disk before the reply is sent."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from ramet.engine.checkpoint import sync_folder
from ramet.errors import RametError
from ramet.metrics import DepartedTensor, Departure
from ramet.payload import Payload

NAME = "audit.jsonl"


@dataclass(frozen=True)
class AuditLog:
    """One client's log of one run. Lines are only ever added."""

    path: Path
    run: str
    client: str

    def add(self, round_number: int, reply: Payload) -> None:
        """Write what is about to leave, and see it on the disk."""
        entry = Departure(
            time=datetime.now(UTC).isoformat(timespec="milliseconds"),
            run=self.run,
            client=self.client,
            round=round_number,
            tensors=tuple(DepartedTensor.of(name, array) for name, array in reply.arrays.items()),
            numbers=tuple(reply.numbers),
            notes=tuple(reply.notes),
        )
        self.path.parent.mkdir(parents=True, exist_ok=True)
        is_new = not self.path.exists()
        with self.path.open("ab") as file:
            file.write(_end_of_a_cut_line(file.tell(), self.path))
            file.write(entry.line().encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        if is_new:
            sync_folder(self.path.parent)


def departures(folder: Path) -> tuple[list[Departure], int]:
    """What the logs below a folder tell, and how many lines cannot be read.

    A crash may cut a line short; no reply was sent after it.
    """
    logs = sorted(folder.rglob(NAME))
    if not logs:
        raise RametError(f"no {NAME} is below {folder}. Give a run's folder, or a site's state.")
    lines = [line for log in logs for line in log.read_text(errors="replace").splitlines()]
    found = []
    for line in lines:
        with suppress(ValueError, KeyError, TypeError):
            found.append(Departure.parse(line))
    return found, len([line for line in lines if line]) - len(found)


def _end_of_a_cut_line(size: int, path: Path) -> bytes:
    if not size:
        return b""
    with path.open("rb") as file:
        file.seek(size - 1)
        return b"" if file.read() == b"\n" else b"\n"
