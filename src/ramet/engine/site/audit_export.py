"""The entries of audit logs as JSON lines, each exported once, for a SIEM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ramet.disk import write_atomically
from ramet.engine.site.audit import AuditEntry, audit_logs
from ramet.errors import RametError


@dataclass
class AuditExport:
    """Reads the logs below a folder, from where the last export ended.

    The cursor file holds the number of bytes that were exported of each log. A log that is shorter
    than that, because it was restored from a backup, is exported again, with the same ids.
    """

    folder: Path
    cursor: Path | None = None
    unreadable: int = 0
    """Number of lines that were skipped: cut short by a crash, or modified."""
    _done: dict[str, int] = field(default_factory=dict)

    def lines(self) -> Iterator[str]:
        """The new entries, as JSON with the fields `id` and `log` in addition."""
        self._done = self._read_cursor()
        for path in audit_logs(self.folder):
            yield from self._lines_of(path, path.relative_to(self.folder).as_posix())

    def commit(self) -> None:
        """Store that all lines so far have been delivered."""
        if self.cursor:
            write_atomically(self.cursor, json.dumps(self._done).encode())

    def _lines_of(self, path: Path, name: str) -> Iterator[str]:
        content = path.read_bytes()
        start = self._done.get(name, 0)
        offset = start if start <= len(content) else 0
        complete = content[offset:].rpartition(b"\n")[0]
        for line in complete.split(b"\n") if complete else ():
            yield from self._exported(line, name, offset)
            offset += len(line) + 1
        self._done[name] = offset

    def _exported(self, line: bytes, name: str, offset: int) -> Iterator[str]:
        try:
            entry = asdict(AuditEntry.parse(line.decode()))
        except (ValueError, KeyError, TypeError):
            self.unreadable += bool(line)
            return
        yield json.dumps({"id": f"{name}:{offset}", "log": name, **entry})

    def _read_cursor(self) -> dict[str, int]:
        if not (self.cursor and self.cursor.exists()):
            return {}
        try:
            return {
                str(log): int(count) for log, count in json.loads(self.cursor.read_text()).items()
            }
        except (ValueError, TypeError, AttributeError) as error:
            raise RametError(
                f"{self.cursor} is not a cursor of `ramet audit export`. Give another file; a new "
                "one exports everything."
            ) from error
