"""`ramet dossier`: documents for review boards, from what a run's folder shows."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from ramet.cli.console import print_line, print_status
from ramet.errors import RametError

app = typer.Typer()
Purpose = Literal["egress", "annex-iv", "dpia", "card"]


@app.command()
def dossier(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of a finished run.")],
    purpose: Annotated[Purpose, typer.Option("--for", help="Who asks.")],
    out: Annotated[
        Path | None, typer.Option(help="A .md or .html file. Default: dossier-PURPOSE.md in RUN.")
    ] = None,
) -> None:
    """Write a document about the run in RUN, for people who approve it.

    Every sentence cites the files of the run that show it, with their SHA-256. What a reader asks
    for and no file shows is listed as missing, with the command that would make it, or who
    has to say it. It claims compliance with nothing.

    Example: ramet dossier runs/together --for egress --out egress.html
    """
    from ramet.disk import write_atomically
    from ramet.dossier import dossier as written
    from ramet.report.text import plural

    path = out or run / f"dossier-{purpose}.md"
    if path.suffix not in (".md", ".html"):
        raise RametError(f"{path} should end with .md or .html.")
    found = written(run, purpose)
    write_atomically(path, found.html() if path.suffix == ".html" else found.markdown())
    print_line(str(path))
    missing = [*found.missing()]
    print_status(f"{plural(len([*found.sentences()]), 'sentence')} with evidence.")
    print_status(f"{plural(len(missing), 'thing')} missing, listed where it belongs.")
