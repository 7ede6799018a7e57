"""Whether a site is in contact with its coordinator, which a running process does not show.

The SuperNode touches the file `news` whenever the coordinator accepts its heartbeat. `python -m
ramet.deploy.alive FOLDER` is a quick health check of a site; it imports only the standard library.
"""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

NEWS = "news"
NEWS_DEADLINE = 60.0
"""Seconds after which a site without news is offline; Flower's SuperLink uses the same."""


def last_news(folder: Path) -> float | None:
    """When the coordinator last accepted a heartbeat of this site, as Unix time.

    0 if it has accepted none since the SuperNode started; None if no SuperNode runs.
    """
    try:
        return (folder / NEWS).stat().st_mtime
    except FileNotFoundError:
        return None


def is_recent(news: float | None) -> bool:
    return news is not None and abs(time.time() - news) < NEWS_DEADLINE


def describe(news: float | None) -> str:
    """The news in words; the text for missing news does not change with time."""
    if news is None:
        return "the SuperNode is not running"
    if not news:
        return "no news from the coordinator since the SuperNode started"
    if is_recent(news):
        return f"news from the coordinator {time.time() - news:.0f} s ago"
    return f"no news from the coordinator since {datetime.fromtimestamp(news, UTC):%F %T} UTC"


def main() -> int:
    news = last_news(Path(sys.argv[1]))
    sys.stdout.write(f"{describe(news)}\n")
    return 0 if is_recent(news) else 1


if __name__ == "__main__":
    sys.exit(main())
