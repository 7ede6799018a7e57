"""Files that survive a crash, and folders that a failed command leaves as they were.

A file is written under a temporary name, synced and renamed, and then its folder is synced. So it
survives a crash of the machine. To survive a crash of the program, it need not be synced.

Commands that write several files do so in a block of `all_or_nothing`: the names change at its end.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

_PRIVATE = 0o600
_syncing: ContextVar[bool] = ContextVar("syncing", default=True)


@dataclass(frozen=True)
class _Changes:
    """What a block has written so far."""

    replaced: dict[Path, Path] = field(default_factory=dict)
    """The temporary file of each file that gets a new content."""
    removed: set[Path] = field(default_factory=set)
    created: list[Path] = field(default_factory=list)

    def apply(self) -> None:
        for path, temporary in self.replaced.items():
            temporary.replace(path)
        for path in self.removed:
            path.unlink(missing_ok=True)
        for folder in {path.parent for path in (*self.replaced, *self.removed)}:
            sync(folder)

    def undo(self) -> None:
        for path in (*self.replaced.values(), *self.created):
            path.unlink(missing_ok=True)


_changes: ContextVar[_Changes | None] = ContextVar("changes", default=None)


@contextmanager
def all_or_nothing() -> Iterator[None]:
    """Apply what the functions below write and remove at the end of the block, if it succeeds.

    Until then, other code finds the old files.
    """
    changes = _Changes()
    token = _changes.set(changes)
    try:
        yield
    except BaseException:
        changes.undo()
        raise
    finally:
        _changes.reset(token)
    changes.apply()


def write_atomically(path: Path, content: bytes | str, mode: int = 0o666) -> None:
    """Write a file so that a crash leaves either the old or the new content."""
    data = content.encode() if isinstance(content, str) else content

    def write(temporary: Path) -> None:
        temporary.unlink(missing_ok=True)  # left by a crash, perhaps with another mode
        temporary.touch(mode)
        temporary.write_bytes(data)

    replace_file(path, write)


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Replace a file by what ``write`` writes to another path; a failure leaves one of both."""
    temporary, pending = path.with_name(f"{path.name}.new"), _changes.get()
    changes = pending or _Changes()
    changes.replaced[path] = temporary
    try:
        write(temporary)
        sync(temporary)
        if pending is None:
            changes.apply()
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def create_private_file(path: Path, content: Callable[[], bytes]) -> bool:
    """Create a file that only its owner can read, unless it exists; True if it was created.

    It can be read at once; a block that fails later removes it again.
    """
    try:
        file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, _PRIVATE)
    except FileExistsError:
        return False
    changes = _changes.get() or _Changes()
    changes.created.append(path)
    try:
        with os.fdopen(file, "wb") as opened:
            opened.write(content())
    except BaseException:
        path.unlink()
        raise
    return True


def remove_file(path: Path) -> None:
    """Remove a file if it exists."""
    changes = _changes.get()
    if changes is None:
        path.unlink(missing_ok=True)
    else:
        changes.removed.add(path)


def sync(path: Path) -> None:
    """Wait until a file or a folder is on disk.

    A new name in a folder may not survive a crash of the machine until the folder is synced.
    """
    if not _syncing.get():
        return
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


@contextmanager
def syncing(wanted: bool) -> Iterator[None]:
    """Whether files are synced; without, the operating system writes them within seconds."""
    token = _syncing.set(wanted)
    try:
        yield
    finally:
        _syncing.reset(token)
