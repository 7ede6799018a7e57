"""Which of its runs a site uses: the one that its coordinator has named, with a signed message."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

from ramet.experiment.files import read_json, write_json

NAME = "accepted.json"


def keep_accepted(state: Path, run: str) -> None:
    """Keep the run's name in the site's state folder."""
    since = datetime.now(UTC).isoformat(timespec="seconds")
    write_json(state / NAME, {"run": run, "since": since})


def accepted_run(state: Path) -> str | None:
    """The run's name; None if the coordinator has named none."""
    path = state / NAME
    return str(read_json(path)["run"]) if path.exists() else None
