"""Structured log of events for monitoring, one JSON object per line.

`log_event` uses the standard `logging`; `events_written_to` writes the events to a file.
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


def log_event(level: int, event: str, **facts: Any) -> None:
    """Log an event; facts are JSON values, and must not contain a site's data."""
    _LOGGER.log(level, event, extra={"facts": facts})


@contextmanager
def events_written_to(path: Path, **common: str) -> Iterator[None]:
    """Append the events of the block to a file, each with the fields of ``common``.

    The file may be renamed by logrotate at any time.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    handler = WatchedFileHandler(path)
    handler.setFormatter(_JsonFormatter(common))
    _LOGGER.addHandler(handler)
    try:
        yield
    finally:
        _LOGGER.removeHandler(handler)
        handler.close()


@contextmanager
def outcome_logged(finished: str, failed: str, stopped: str) -> Iterator[dict[str, Any]]:
    """Log how the block ended and how long it took, with the facts added to the yielded dict.

    Interrupts, by Ctrl-C or a signal, are not failures.
    """
    started, facts = time.monotonic(), dict[str, Any]()
    try:
        yield facts
    except BaseException as error:
        if _is_interrupt(error):
            log_event(logging.INFO, stopped, **facts, seconds=_since(started))
            raise
        # The text of other errors may quote anything, so only their type is logged.
        reason = str(error) if isinstance(error, RametError) else type(error).__name__
        log_event(logging.ERROR, failed, **facts, seconds=_since(started), reason=reason)
        raise
    log_event(logging.INFO, finished, **facts, seconds=_since(started))


def _is_interrupt(error: BaseException) -> bool:
    """Flower's programs exit with 0 when they are asked to stop, and with 1 on an error."""
    return isinstance(error, KeyboardInterrupt) or (
        isinstance(error, SystemExit) and not error.code
    )


def read_lines(path: Path) -> list[dict[str, Any]]:
    """The JSON objects in a file, one per line; a line that is cut short is skipped."""
    objects = []
    for line in path.read_text(errors="replace").splitlines() if path.exists() else ():
        with suppress(ValueError):
            objects.append(json.loads(line))
    return objects


class _JsonFormatter(logging.Formatter):
    def __init__(self, common: dict[str, str]) -> None:
        super().__init__()
        self._common = common

    def format(self, record: logging.LogRecord) -> str:
        when = datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds")
        line = {"time": when, "level": record.levelname.lower(), "event": record.getMessage()}
        return json.dumps({**line, **self._common, **vars(record)["facts"]})


def _since(started: float) -> float:
    return round(time.monotonic() - started, 3)
