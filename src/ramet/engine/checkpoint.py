"""Snapshots on disk that are whole or not there.

Arrays and facts go into one safetensors file, written beside its final name, synced and renamed,
with a hash over its content. Reading checks the hash. Nothing is ever pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ramet.errors import RametError
from ramet.payload import Arrays, digest


class DamagedError(RametError):
    """A snapshot whose content is not what was written."""


@dataclass(frozen=True)
class Snapshot:
    """The state after ``step``; facts are JSON values."""

    step: int
    arrays: Arrays
    facts: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Snapshots:
    """The last few snapshots in a folder.

    Three are kept: a site may be one round ahead of a server that was killed, and the server
    itself may have to fall back by one.
    """

    folder: Path
    keep: int = 3

    def save(self, snapshot: Snapshot) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        facts = json.dumps(snapshot.facts, sort_keys=True)
        seal = {"facts": facts, "sha256": _seal(snapshot.arrays, facts)}
        write_whole(self._path(snapshot.step), save(dict(snapshot.arrays), metadata=seal))
        steps = self.steps()
        older = [step for step in steps if step <= snapshot.step]
        for step in set(steps) - set(older[-self.keep :]):
            self._path(step).unlink()

    def steps(self) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob("*.safetensors"))

    def last_step(self, before: int) -> int | None:
        """The step of the newest snapshot older than ``before``."""
        return max((step for step in self.steps() if step < before), default=None)

    def last_whole(self) -> Snapshot | None:
        """The newest snapshot that is not damaged; an error if there are only damaged ones."""
        damaged: DamagedError | None = None
        for step in reversed(self.steps()):
            try:
                return self.load(step)
            except DamagedError as error:
                damaged = error
        if damaged:
            raise damaged
        return None

    def load(self, step: int) -> Snapshot:
        path = self._path(step)
        try:
            with safe_open(path, framework="np") as file:
                seal = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError) as error:
            raise _damaged(path, str(error)) from error
        if seal.get("sha256") != _seal(arrays, seal.get("facts", "")):
            raise _damaged(path, "its hash differs")
        return Snapshot(step, arrays, json.loads(seal["facts"]))

    def _path(self, step: int) -> Path:
        return self.folder / f"{step:06d}.safetensors"


def write_whole(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves the old one or the new one, never a part."""
    fresh = path.with_suffix(".new")
    with fresh.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    fresh.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """A new name in a folder is durable only when the folder is synced too."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _seal(arrays: Arrays, facts: str) -> str:
    return hashlib.sha256(f"{digest(arrays)}|{facts}".encode()).hexdigest()


def _damaged(path: Path, how: str) -> DamagedError:
    return DamagedError(
        f"the snapshot {path} is damaged ({how}). Restore it from a backup, or start the run anew "
        "in another folder."
    )
