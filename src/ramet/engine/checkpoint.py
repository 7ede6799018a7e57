"""Snapshots on disk, written atomically.

A snapshot is one safetensors file of arrays and facts, with a checksum of its content. It is
written under a temporary name, synced and renamed. Loading verifies the checksum, which detects
damage, not tampering: whoever can write the file can write its checksum. Nothing is pickled.
"""

from __future__ import annotations

import hashlib
import json
import os
import zlib
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save

from ramet.errors import RametError
from ramet.payload import Arrays, digest


class DamagedError(RametError):
    """The content of a snapshot differs from what was written."""


@dataclass(frozen=True)
class Snapshot:
    """The state after ``step``. Facts are JSON values."""

    step: int
    arrays: Arrays
    facts: Mapping[str, Any] = field(default_factory=dict)


KEPT = 3
"""Number of rounds whose snapshots are kept: a site may be one round ahead of a server that was
killed, and the server itself may have to fall back by one."""


@dataclass(frozen=True)
class Snapshots:
    """The latest snapshots in a folder."""

    folder: Path
    keep: int = KEPT

    def save(self, snapshot: Snapshot, pinned: Collection[int] = ()) -> None:
        """Save a snapshot, and delete newer ones, whose steps are repeated, and old ones.

        Snapshots of ``pinned`` steps are not too old.
        """
        self.folder.mkdir(parents=True, exist_ok=True)
        facts = json.dumps(snapshot.facts, sort_keys=True)
        metadata = {"facts": facts, "crc32": _crc32(snapshot.arrays, facts)}
        write_atomically(self._path(snapshot.step), save(dict(snapshot.arrays), metadata=metadata))
        steps = self.steps()
        up_to_this = [step for step in steps if step <= snapshot.step]
        old = set(up_to_this[: -self.keep]) - set(pinned)
        for step in old | (set(steps) - set(up_to_this)):
            self._path(step).unlink()

    def steps(self) -> list[int]:
        return sorted(int(path.stem) for path in self.folder.glob("*.safetensors"))

    def latest_step(self, before: int) -> int | None:
        """The step of the newest snapshot older than ``before``."""
        return max((step for step in self.steps() if step < before), default=None)

    def latest_valid(self) -> Snapshot | None:
        """The newest undamaged snapshot; None if there are none, an error if all are damaged."""
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
                metadata = file.metadata() or {}
                arrays = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        except (SafetensorError, OSError, ValueError) as error:
            raise _damaged(path, str(error)) from error
        if not _is_whole(arrays, metadata):
            raise _damaged(path, "its checksum differs")
        return Snapshot(step, arrays, json.loads(metadata["facts"]))

    def _path(self, step: int) -> Path:
        return self.folder / f"{step:06d}.safetensors"


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves either the old or the new content."""
    temporary = path.with_suffix(".new")
    with temporary.open("wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Sync a folder: until then a new name in it may not survive a crash."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _is_whole(arrays: Arrays, metadata: Mapping[str, str]) -> bool:
    facts = metadata.get("facts", "")
    if "crc32" in metadata:
        return metadata["crc32"] == _crc32(arrays, facts)
    return metadata.get("sha256") == _sha256(arrays, facts)  # older snapshots


def _crc32(arrays: Arrays, facts: str) -> str:
    """CRC-32 of names, types, shapes and values, in the order of the names, and of the facts."""
    sum_ = zlib.crc32(facts.encode())
    for name in sorted(arrays):
        array = arrays[name]
        sum_ = zlib.crc32(f"{name}|{array.dtype.str}|{array.shape}|".encode(), sum_)
        sum_ = zlib.crc32(np.ascontiguousarray(array).data, sum_)
    return f"{sum_:08x}"


def _sha256(arrays: Arrays, facts: str) -> str:
    return hashlib.sha256(f"{digest(arrays)}|{facts}".encode()).hexdigest()


def _damaged(path: Path, how: str) -> DamagedError:
    return DamagedError(
        f"the snapshot {path} is damaged ({how}). Restore it from a backup, or start a new run in "
        "another folder."
    )
