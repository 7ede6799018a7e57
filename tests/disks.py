"""Disks without room: a small one that is full or, without root, a limit on the size of files."""

from __future__ import annotations

import resource
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import pytest

_BALLAST = "ballast"


@contextmanager
def small_disk(folder: Path, megabytes: int = 1) -> Iterator[bool]:
    """Mount a small disk on a folder; False if this process may not."""
    mount = ["mount", "-t", "tmpfs", "-o", f"size={megabytes}m", "tmpfs", str(folder)]
    mounted = subprocess.run(mount, capture_output=True, check=False).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


@contextmanager
def filled(disk: Path) -> Iterator[None]:
    """Fill a small disk for a while."""
    ballast = disk / _BALLAST
    with ballast.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        _write_forever(file)
    try:
        yield
    finally:
        ballast.unlink()


@contextmanager
def nothing_can_be_written() -> Iterator[None]:
    """Let this process create files, but write nothing into them."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (0, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def _write_forever(file: IO[bytes]) -> None:
    while True:
        file.write(bytes(1 << 16))
