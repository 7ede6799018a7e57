"""`ramet board`: methods on the same data, ranked."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from ramet.cli.arguments import Json
from ramet.cli.console import print_json, print_line

app = typer.Typer()


@app.command()
def board(
    paths: Annotated[
        list[Path],
        typer.Argument(metavar="PATH...", help="Folders that `ramet compare --keep` wrote."),
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder for the page and its figures.")] = (
        Path("board")
    ),
    as_json: Json = False,
) -> None:
    """Rank methods on the same data and partition, from kept runs, with what leaves a site.

    Writes board.md with figures of scores and bytes; with --json, prints the entries instead. Two
    methods are tied if the 95 % interval of their difference includes zero; a rank such as 1–3 is
    what the ties leave open. Methods that are one algorithm here, because with equal options their
    runs end with the same SHA-256, are ranked once. What leaves a site, and whether replies can be
    summed securely, is asked from the method's code. Each kept run has its command, commit and
    SHA-256.

    Example: ramet board results/tuned-cora-metis-10
    """
    from ramet.disk import write_atomically
    from ramet.experiment import output_folder
    from ramet.papers.board import board as ranked
    from ramet.papers.board_page import board_markdown, figure_name, panel_figure
    from ramet.report import drawing

    panels = ranked(paths)
    if as_json:
        print_json([panel.to_json() for panel in panels])
        return
    page = folder / "board.md"
    with output_folder(folder):
        for panel in panels:
            drawing.save(panel_figure(panel), folder, figure_name(panel))
        write_atomically(page, f"# Board\n\n{board_markdown(panels)}\n")
    print_line(f"Wrote {page} and its figures.")
