"""Write a commented start: a method, a network, a task, a setting, or a site with tables."""

from __future__ import annotations

import csv
import random
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Literal

import typer

from ramet.cli.console import print_line
from ramet.errors import RametError

app = typer.Typer()
_STARTS = Path(__file__).parents[1] / "starts"
_FILES = {"method": "mine.py", "network": "net.py", "task": "task.py", "setting": "setting.py"}
_ACCOUNTS, _TRANSFERS = 60, 240
Kind = Literal["method", "network", "task", "setting", "site"]


@app.command()
def new(
    kind: Annotated[
        Kind, typer.Argument(help="method, network, task, setting or site.", metavar="KIND")
    ],
    file: Annotated[
        Path | None,
        typer.Argument(help="The file to write, or for a site its folder.", metavar="FILE"),
    ] = None,
) -> None:
    """Write a method, network, task, setting or site that runs at once, to make your own of it.

    Example: ramet new method mine.py
    """
    path = file or Path(_FILES.get(kind, "site"))
    if path.exists():
        raise RametError(f"{path} exists. Choose another name.")
    if kind == "site":
        written = _site(path)
    else:
        text = (_STARTS / f"{kind}.py.txt").read_text().replace("FILE", str(path))
        _write(path, text)
        written = [path]
    print_line(f"wrote {', '.join(map(str, written))}")
    for line in written[0].read_text().splitlines():
        command = line.removeprefix("#").strip()
        if command.startswith("ramet "):
            print_line(f"  {command}")


def _site(folder: Path) -> list[Path]:
    """A site's file, and invented tables that fit it."""
    toml, accounts, transfers = (
        folder / name for name in ("site.toml", "accounts.csv", "transfers.csv")
    )
    text = (_STARTS / "site.toml.txt").read_text()
    _write(toml, text.replace("FILE", str(toml)).replace("SITE", folder.name))
    draw = random.Random(folder.name)
    days = [f"20{draw.randint(10, 25)}-0{draw.randint(1, 9)}-15" for _ in range(_ACCOUNTS)]
    rows = [
        (f"a{number}", day, draw.choice(["AT", "DE", "IT"]), draw.choice(["fine", "fraud"]))
        for number, day in enumerate(days)
    ]
    _table(accounts, ("id", "opened", "country", "state"), rows)
    sent = [
        (*(f"a{one}" for one in draw.sample(range(_ACCOUNTS), 2)), draw.randint(10, 9000))
        for _ in range(_TRANSFERS)
    ]
    _table(transfers, ("source", "target", "amount"), sent)
    return [toml, accounts, transfers]


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)


def _table(path: Path, header: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
