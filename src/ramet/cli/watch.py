"""`ramet watch`: a run while it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()


@app.command()
def watch(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, or of a coordinator.")],
    html: Annotated[
        Path | None, typer.Option(help="Write a page that reloads itself, instead.")
    ] = None,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once.")] = False,
) -> None:
    """Watch the run in FOLDER until it is over: rounds, each client's curve, who is missing.

    It reads files, and changes nothing. Of a coordinator's folder, it is the run that was submitted
    last. What is not a terminal gets a line per round.

    \b
    Examples:
    ramet watch runs/together
    ramet watch runs/together --html run.html
    ramet watch hospitals
    """
    import time
    from collections.abc import Iterator

    from rich.live import Live

    from ramet.cli.console import exit_on_ctrl_c, out, print_line, print_status
    from ramet.disk import write_atomically
    from ramet.report.watching import Watched

    def looks() -> Iterator[Watched]:
        while True:
            seen = Watched.of(folder)
            yield seen
            if once or seen.is_over:
                return
            time.sleep(every)

    rounds = None
    with exit_on_ctrl_c():
        if html is not None:
            for found in looks():
                write_atomically(html, found.page(max(1, round(every))))
                if rounds is None and not (once or found.is_over):
                    print_status(f"Writing {html} every {every:g} s until the run is over.")
                rounds = found.rounds_done
        elif out.is_terminal:
            with Live(console=out, auto_refresh=False) as live:
                for found in looks():
                    live.update(found.view(), refresh=True)
        else:
            for found in looks():
                if found.rounds_done != rounds and not (once or found.is_over):
                    print_line(found.line())
                rounds = found.rounds_done
            out.print(found.view())
