"""What happens, one JSON object per line, for those who watch machines.

`tell` goes through the standard `logging`; whoever has a place for it opens a file by `written_to`.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from logging.handlers import WatchedFileHandler
from pathlib import Path
from typing import Any

from ramet.errors import RametError

NAME = "events.jsonl"
_LOGGER = logging.getLogger("ramet.events")
_LOGGER.setLevel(logging.INFO)
_LOGGER.addHandler(logging.NullHandler())


def tell(level: int, event: str, **facts: Any) -> None:
    """Note what happened; facts are JSON values, and never a site's data."""
    _LOGGER.log(level, event, extra={"facts": facts})


@contextmanager
def written_to(path: Path, **always: str) -> Iterator[None]:
    """Add what is told meanwhile to a file; ``always`` stands in each line.

    The file may be renamed by logrotate at any time.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = WatchedFileHandler(path)
    handler.setFormatter(_Line(always))
    _LOGGER.addHandler(handler)
    try:
        yield
    finally:
        _LOGGER.removeHandler(handler)
        handler.close()


@contextmanager
def ending(well: str, badly: str, stopped: str) -> Iterator[dict[str, Any]]:
    """Tell how something ended, after how long, and with the facts that were put into the dict.

    Whoever is stopped by somebody, by Ctrl-C or a signal, has not failed.
    """
    started, facts = time.monotonic(), dict[str, Any]()
    try:
        yield facts
    except BaseException as error:
        if _was_stopped(error):
            tell(logging.INFO, stopped, **facts, seconds=_since(started))
            raise
        # Texts of other errors may quote anything, so only their kind is told.
        reason = str(error) if isinstance(error, RametError) else type(error).__name__
        tell(logging.ERROR, badly, **facts, seconds=_since(started), reason=reason)
        raise
    tell(logging.INFO, well, **facts, seconds=_since(started))


def _was_stopped(error: BaseException) -> bool:
    """Flower's programs exit with 0 when they are told to end, and with 1 when they must."""
    return isinstance(error, KeyboardInterrupt) or (
        isinstance(error, SystemExit) and not error.code
    )


def read_lines(path: Path) -> list[dict[str, Any]]:
    """A file of JSON objects, so far; a line that is cut short is not one."""
    found = []
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        with suppress(ValueError):
            found.append(json.loads(line))
    return found


class _Line(logging.Formatter):
    def __init__(self, always: dict[str, str]) -> None:
        super().__init__()
        self._always = always

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps({**line, **self._always, **vars(record)["facts"]})


def _since(started: float) -> float:
    return round(time.monotonic() - started, 3)
