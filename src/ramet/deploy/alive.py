"""Whether a site is in contact with its coordinator, which a running process does not show.

The SuperNode touches the file `news` whenever the coordinator accepts its heartbeat. `python -m
ramet.deploy.alive FOLDER` is a quick health check of a site; it imports only the standard library.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

HEARTBEAT = "news"
HEARTBEAT_DEADLINE = 60.0
"""Seconds without an accepted heartbeat after which a site is offline, as for the SuperLink."""


def last_heartbeat(folder: Path) -> float | None:
    """When the coordinator last accepted a heartbeat of this site, as Unix time.

    0 if it has accepted none since the SuperNode started; None if no SuperNode runs.
    """
    try:
        return (folder / HEARTBEAT).stat().st_mtime
    except FileNotFoundError:
        return None


def is_recent(heartbeat: float | None) -> bool:
    return heartbeat is not None and abs(time.time() - heartbeat) < HEARTBEAT_DEADLINE


def describe(heartbeat: float | None) -> str:
    """The state in words. While no heartbeat is accepted, the text does not change with time."""
    if heartbeat is None:
        return "the SuperNode is not running"
    if not heartbeat:
        return "no heartbeat accepted since the SuperNode started"
    if is_recent(heartbeat):
        return f"last heartbeat accepted {time.time() - heartbeat:.0f} s ago"
    return f"no heartbeat accepted since {datetime.fromtimestamp(heartbeat, UTC):%F %T} UTC"


def main() -> int:
    heartbeat = last_heartbeat(Path(sys.argv[1]))
    sys.stdout.write(f"{describe(heartbeat)}\n")
    return 0 if is_recent(heartbeat) else 1


if __name__ == "__main__":
    sys.exit(main())
