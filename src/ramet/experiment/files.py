"""Files of a run's folder: JSON, and one line per round."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ramet.disk import all_or_nothing, write_atomically
from ramet.errors import RametError
from ramet.metrics import Record


@dataclass(frozen=True)
class RoundLog:
    """`rounds.jsonl`: the record of each round, in order."""

    path: Path

    def read(self) -> list[Record]:
        """The rounds so far; a line that a crash cut short is ignored."""
        if not self.path.exists():
            return []
        complete = self.path.read_text().rpartition("\n")[0]
        try:
            return [Record.parse(line) for line in complete.splitlines()]
        except (ValueError, TypeError) as error:
            raise damaged(self.path) from error

    def count(self) -> int:
        """The number of recorded rounds, counted without parsing them."""
        return self.path.read_bytes().count(b"\n") if self.path.exists() else 0

    def append(self, record: Record) -> None:
        with self.path.open("a") as file:
            file.write(record.line() + "\n")
            file.flush()
            os.fsync(file.fileno())

    def drop_after(self, last: int) -> None:
        """Drop the records of rounds that will be repeated."""
        kept = [record.line() + "\n" for record in self.read() if record.round <= last]
        write_atomically(self.path, "".join(kept).encode())


@contextmanager
def filling(path: Path) -> Iterator[None]:
    """Create a folder if it does not exist; if the block fails, remove what it has written."""
    before = {*path.rglob("*")} if path.exists() else None
    make_folder(path)
    try:
        yield
    except BaseException:
        for new in {*path.rglob("*")} - (before or set()):
            shutil.rmtree(new) if new.is_dir() else new.unlink(missing_ok=True)
        if before is None:
            path.rmdir()
        raise


@contextmanager
def output_folder(path: Path) -> Iterator[None]:
    """Create a folder if it does not exist; of the files that the block writes, all stay or none.

    The block writes them with the functions of `ramet.disk`.
    """
    with filling(path), all_or_nothing():
        yield


def make_folder(path: Path) -> None:
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise RametError(
            f"cannot create {path} ({error.strerror}). Choose another folder."
        ) from error


def read_json(path: Path) -> dict[str, Any]:
    try:
        content: dict[str, Any] = json.loads(path.read_text())
    except ValueError as error:
        raise damaged(path) from error
    return content


def write_json(path: Path, content: Any) -> None:
    write_atomically(path, (json.dumps(content, indent=1) + "\n").encode())


def damaged(path: Path) -> RametError:
    return RametError(f"{path} is damaged. Restore it from a backup, or start a new run.")
