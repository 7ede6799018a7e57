"""A file at a site with an entry for each run, on disk before a reply leaves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from filelock import FileLock
from pydantic import BaseModel

from ramet.disk import write_atomically
from ramet.errors import RametError

_VERSION = 1
Entry = TypeVar("Entry", bound=BaseModel)


@dataclass(frozen=True)
class RunEntries(Generic[Entry]):
    """The entries of all runs in one file.

    Args:
        path: the file; a missing one has no entries.
        kind: the type of an entry.
        content: what the site keeps in it, for an error.
        closed: what the site does not take part in while the file cannot be read.
    """

    path: Path
    kind: type[Entry]
    content: str
    closed: str

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process at a time read and write it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock")):
            yield

    def read(self) -> dict[str, Entry]:
        """The entries by run; an unreadable file is an error, not an empty one."""
        if not self.path.exists():
            return {}
        try:
            facts = json.loads(self.path.read_text())
            return {run: self.kind.model_validate(entry) for run, entry in facts["runs"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RametError(
                f"{self.path}, in which this site keeps {self.content}, cannot be read. Restore it "
                f"from a backup; without it the site takes part in no {self.closed}."
            ) from error

    def write(self, runs: Mapping[str, Entry]) -> None:
        """Replace the file, so that a crash leaves either the old or the new one."""
        facts = {run: entry.model_dump() for run, entry in runs.items()}
        content = json.dumps({"version": _VERSION, "runs": facts}, indent=1)
        write_atomically(self.path, content.encode())
