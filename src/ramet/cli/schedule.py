"""Commands for a consortium that trains again by itself: `ramet deploy due`, `releases` …"""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from ramet.cli.arguments import Data, Json, PartyFolder, data_folder
from ramet.cli.console import print_json, print_line, print_status, progress

_DIGITS = 8
"""As many digits of a run's name as `ramet deploy status` shows."""


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
    sites are told which run counts. What was stopped is continued. Otherwise nothing happens. Exits
    with 1 if neither this week or month nor the one before has an accepted run.
    """
    from ramet.deploy.coordinator import Coordinator
    from ramet.deploy.due import Due

    party = Coordinator.open(folder.absolute())
    today = (day or datetime.now()).date()
    with progress() as observe:
        is_in_time = Due(party, today, data_folder(data), deadline, observe, print_status).work(
            again
        )
    if not is_in_time:
        raise typer.Exit(1)


def releases(folder: PartyFolder = Path(), as_json: Json = False) -> None:
    """List what became of the scheduled runs of the coordinator in FOLDER, and why.

    In brackets is the beginning of the name by which sites know the run, as in their logs.
    """
    from ramet.deploy.coordinator import Coordinator
    from ramet.deploy.due import run_folder
    from ramet.deploy.releases import Releases
    from ramet.experiment import RunFolder
    from ramet.experiment.superseded import why_superseded

    party = Coordinator.open(folder.absolute())
    known = Releases.read(party.folder)
    entries, current = known.entries, known.current
    runs = {one.run: RunFolder(run_folder(party, one.run)) for one in entries}
    ids = {run: kept.run_name for run, kept in runs.items() if kept.started}
    if as_json:
        print_json(
            [
                one.model_dump(exclude_defaults=True) | {"id": ids.get(one.run, "")}
                for one in entries
            ]
        )
        return
    for one in entries:
        named = f"{one.run} ({ids[one.run][:_DIGITS]})" if one.run in ids else one.run
        facts = ": ".join(part for part in (", ".join(one.sites), one.reason) if part)
        print_line(f"{one.time} {named} {one.event}{f': {facts}' if facts else ''}")
    for run, kept in runs.items():
        if why := why_superseded(kept.path):
            print_line(f"{run} is {why}")
    known_as = f", at the sites {ids[current]}" if current in ids else ""
    print_line(f"The run that counts: {current or 'none yet'}{known_as}")


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
