"""Snapshots on disk, written atomically.

A snapshot is one safetensors file of arrays and facts, with a checksum of its content. Loading
verifies the checksum, which detects damage, not tampering: whoever can write the file can write its
checksum. Nothing is pickled.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import xxhash
from safetensors import SafetensorError, safe_open
from safetensors.numpy import save_file

from ramet.disk import replace_file
from ramet.errors import RametError
from ramet.payload import Arrays


class DamagedError(RametError):
    """The content of a snapshot differs from what was written."""


@dataclass(frozen=True)
class Snapshot:
    """The state after ``step``. Facts are JSON values."""

    step: int
    arrays: Arrays
    facts: Mapping[str, Any] = field(default_factory=dict)


_SUFFIX = ".safetensors"
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
        arrays = {name: np.asarray(array, order="C") for name, array in snapshot.arrays.items()}
        metadata = {"facts": facts, "xxh3": _xxh3(arrays, facts)}
        replace_file(self._path(snapshot.step), lambda path: save_file(arrays, path, metadata))
        self._delete_others(snapshot.step, pinned)

    def share(self, step: int, other: Snapshots, as_step: int, pinned: Collection[int]) -> None:
        """Save a snapshot also in another folder, under another step, without writing it again."""
        other.folder.mkdir(parents=True, exist_ok=True)
        replace_file(other._path(as_step), lambda path: _link(self._path(step), path))
        other._delete_others(as_step, pinned)

    def delete_old(self) -> None:
        """Delete snapshots that are too old."""
        for step in self.steps()[: -self.keep]:
            self._path(step).unlink()

    def _delete_others(self, latest: int, pinned: Collection[int]) -> None:
        steps = self.steps()
        up_to_this = [step for step in steps if step <= latest]
        old = set(up_to_this[: -self.keep]) - set(pinned)
        for step in old | (set(steps) - set(up_to_this)):
            self._path(step).unlink()

    def steps(self) -> list[int]:
        try:
            with os.scandir(self.folder) as files:
                names = [file.name for file in files if file.name.endswith(_SUFFIX)]
        except FileNotFoundError:
            return []
        return sorted(int(name.removesuffix(_SUFFIX)) for name in names)

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
                arrays = {name: file.get_tensor(name) for name in sorted(file.keys())}
        except (SafetensorError, OSError, ValueError) as error:
            raise _damaged(path, str(error)) from error
        if metadata.get("xxh3") != _xxh3(arrays, metadata.get("facts", "")):
            raise _damaged(path, "its checksum differs")
        return Snapshot(step, arrays, json.loads(metadata["facts"]))

    def write(self) -> None:
        """Do nothing: what is saved is on disk."""

    def _path(self, step: int) -> Path:
        return self.folder / f"{step:06d}{_SUFFIX}"


def _link(source: Path, target: Path) -> None:
    target.unlink(missing_ok=True)  # left by a crash
    try:
        os.link(source, target)
    except OSError:  # some file systems have no links
        shutil.copyfile(source, target)


def _xxh3(arrays: Arrays, facts: str) -> str:
    """XXH3 of names, types, shapes and values, in the order of the names, and of the facts."""
    sum_ = xxhash.xxh3_64(facts.encode())
    for name in sorted(arrays):
        array = arrays[name]
        sum_.update(f"{name}|{array.dtype.str}|{array.shape}|".encode())
        sum_.update(np.ascontiguousarray(array).data)
    return sum_.hexdigest()


def _damaged(path: Path, how: str) -> DamagedError:
    return DamagedError(
        f"the snapshot {path} is damaged ({how}). Restore it from a backup, or start a new run in "
        "another folder."
    )
