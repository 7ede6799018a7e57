"""Files that survive a crash.

A file is written under a temporary name, synced and renamed, and then its folder is synced. So it
survives a crash of the machine. To survive a crash of the program, it need not be synced.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from pathlib import Path

_syncing: ContextVar[bool] = ContextVar("syncing", default=True)


def write_atomically(path: Path, content: bytes) -> None:
    """Write a file so that a crash leaves either the old or the new content."""
    replace_file(path, lambda temporary: temporary.write_bytes(content))


def replace_file(path: Path, write: Callable[[Path], object]) -> None:
    """Replace a file by what ``write`` writes to another path; a crash leaves one of both."""
    temporary = path.with_suffix(".new")
    write(temporary)
    sync(temporary)
    temporary.replace(path)
    sync(path.parent)


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
