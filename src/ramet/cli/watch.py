"""`ramet watch`: a run while it goes on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

app = typer.Typer()
_PAGE = """<!doctype html><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta http-equiv="refresh" content="{every}"><title>Ramet</title>
<style>{{stylesheet}} body {{{{color: {{foreground}}; background: {{background}};}}}}</style>
<pre style="font-family:Menlo,'DejaVu Sans Mono',consolas,monospace"><code>{{code}}</code></pre>
"""


@app.command()
def watch(
    folder: Annotated[Path, typer.Argument(help="Folder of a run, or of a coordinator.")],
    html: Annotated[
        Path | None, typer.Option(help="Write a page that reloads itself, instead.")
    ] = None,
    every: Annotated[float, typer.Option(min=0.1, help="Seconds between two looks.")] = 2.0,
    once: Annotated[bool, typer.Option("--once", help="Look once.")] = False,
) -> None:
    """Watch the run in FOLDER until it is finished: rounds, each client's curve, who is missing.

    It reads files, and changes nothing. Of a coordinator's folder, it is the newest run.

    \b
    Examples:
    ramet watch runs/together
    ramet watch runs/together --html run.html
    """
    import time
    from io import StringIO

    from rich.console import Console
    from rich.live import Live

    from ramet.cli.console import out
    from ramet.disk import write_atomically
    from ramet.report.watching import Watched

    def page(watched: Watched) -> str:
        console = Console(file=StringIO(), record=True, width=100)
        console.print(watched.view())
        return console.export_html(code_format=_PAGE.format(every=max(1, round(every))))

    found = Watched.of(folder)
    if html is not None:
        write_atomically(html, page(found))
        while not (once or found.is_finished):
            time.sleep(every)
            found = Watched.of(folder)
            write_atomically(html, page(found))
        return
    with Live(found.view(), console=out, auto_refresh=False) as live:
        while not (once or found.is_finished):
            time.sleep(every)
            found = Watched.of(folder)
            live.update(found.view(), refresh=True)
