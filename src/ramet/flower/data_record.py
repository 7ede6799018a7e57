"""What a site records in the state of a run: its data files and the run's terms.

So no round trains on other data, or under other settings or another preparation of columns.
"""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from ramet.data.own.files import site_files
from ramet.disk import write_atomically
from ramet.flower.permission import NotAllowedError

NAME, TERMS = "data.json", "terms.txt"


def check_same_data(state: Path, toml: Path) -> None:
    """Record the site's files in the first round; refuse a later round if one has changed.

    A file is read again only if its size or its times differ from the record.
    """
    record = state / NAME
    before = json.loads(record.read_text()) if record.exists() else None
    files = {path.relative_to(toml.parent).as_posix(): path for path in site_files(toml)}
    now = {name: _facts(path, (before or {}).get(name)) for name, path in files.items()}
    if before is not None and _hashes(before) != _hashes(now):
        raise NotAllowedError(
            "the site's data has changed since this run started. Start a new run, or have the site "
            "restore its data and continue this one."
        )
    if now != before:
        state.mkdir(parents=True, exist_ok=True)
        write_atomically(record, json.dumps(now).encode())


def check_same_terms(state: Path, digest: str) -> None:
    """Record the run's terms with its first message; refuse a later one with others.

    Otherwise a coordinator could try many of them under one name of a run.
    """
    record = state / TERMS
    if not record.exists():
        state.mkdir(parents=True, exist_ok=True)
        write_atomically(record, digest.encode())
    elif record.read_text() != digest:
        raise NotAllowedError(
            "the settings, or the preparation of columns, have changed since this run started. "
            "Start a new run."
        )


def data_version(toml: Path) -> str:
    """SHA-256 of a site's TOML file and all files that it names."""
    files = {path.relative_to(toml.parent).as_posix(): path for path in site_files(toml)}
    hashes = _hashes({name: _facts(path, None) for name, path in files.items()})
    return hashlib.sha256(json.dumps(hashes).encode()).hexdigest()


def _facts(path: Path, before: list[int | str] | None) -> list[int | str]:
    """Size, times of modification and change, and SHA-256."""
    status = path.stat()
    times = [status.st_size, status.st_mtime_ns, status.st_ctime_ns]
    if before is not None and before[:3] == times:
        return before
    with path.open("rb") as file:
        return [*times, hashlib.file_digest(file, "sha256").hexdigest()]


def _hashes(record: dict[str, list[int | str]]) -> list[tuple[str, int | str]]:
    return sorted((name, facts[3]) for name, facts in record.items())
