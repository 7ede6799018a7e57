"""Commands for a consortium that trains again by itself: `ramet deploy due`, `releases` …"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from ramet.cli.arguments import Data, Json, PartyFolder, data_folder
from ramet.cli.console import print_json, print_line, print_list, print_status, progress


def due(
    folder: PartyFolder = Path(),
    data: Data = None,
    deadline: Annotated[
        float, typer.Option(help="Give up after this many seconds without a finished round.")
    ] = 1200.0,
    day: Annotated[
        datetime | None,
        typer.Option("--date", formats=["%Y-%m-%d"], help="The day to act on. Default: today."),
    ] = None,
    again: Annotated[
        bool, typer.Option("--again", help="Begin a new run, whatever became of the last one.")
    ] = False,
) -> None:
    """Do what the schedule in the coordinator's FOLDER says; call it from a timer, every day.

    If a run is due, it is run from the last accepted one, accepted or refused by the gate, and the
    sites are told which run counts. What was stopped is continued. Otherwise nothing happens.
    """
    from ramet.deploy.coordinator import Coordinator
    from ramet.deploy.due import Due

    party = Coordinator.open(folder.absolute())
    today = (day or datetime.now()).date()
    with progress() as observe:
        Due(party, today, data_folder(data), deadline, observe, print_status).work(again)


def releases(folder: PartyFolder = Path(), as_json: Json = False) -> None:
    """List what became of the scheduled runs of the coordinator in FOLDER, and why."""
    from ramet.deploy.coordinator import Coordinator
    from ramet.deploy.releases import Releases

    releases = Releases.read(Coordinator.open(folder.absolute()).folder)
    if as_json:
        print_json([one.model_dump(exclude_defaults=True) for one in releases.entries])
        return
    print_list(
        ("time", "run", "event", "sites", "why"),
        [
            (one.time, one.run, one.event, ", ".join(one.sites), one.reason)
            for one in releases.entries
        ],
    )
    print_line(f"The run that counts: {releases.current or 'none yet'}")


def roll_back(
    folder: PartyFolder = Path(),
    run: Annotated[
        str | None, typer.Argument(help="An accepted run. Default: the one before.")
    ] = None,
) -> None:
    """Let an earlier accepted run count again at the coordinator in FOLDER, and tell its sites."""
    from ramet.deploy.coordinator import Coordinator
    from ramet.deploy.due import roll_back

    roll_back(Coordinator.open(folder.absolute()), run, print_status)
