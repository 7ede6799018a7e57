"""`ramet report`: a page about finished runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ramet.cli.arguments import OWN, Data, Target, data_folder
from ramet.cli.console import print_line
from ramet.errors import RametError

if TYPE_CHECKING:
    from ramet.partition.inspection import GraphInspection
    from ramet.studies.finished_run import FinishedRun

app = typer.Typer()


@app.command()
def report(
    paths: Annotated[
        list[Path], typer.Argument(metavar="PATH...", help="Folders with finished runs.")
    ],
    folder: Annotated[Path, typer.Option("--out", help="Folder for the report.")] = Path("report"),
    target: Target = None,
    data: Data = None,
) -> None:
    """Write an HTML page about finished runs, with figures as PNG and SVG.

    For a paper: table.tex, for LaTeX with booktabs, and gains.pdf, with 95 % intervals.

    PATH is a sweep folder, a run folder, or a folder that `ramet compare --keep` wrote.

    Example: ramet report sweeps/single --target 75
    """
    from ramet.experiment import output_folder
    from ramet.papers.printed import baselines
    from ramet.report.page import write_report
    from ramet.studies.archive import finished_runs

    runs = finished_runs(paths)
    first = next(run for by_seed in runs.values() for run in by_seed.values())
    inspection, left_out = _divergences(first, data_folder(data))
    share = None if target is None else target / 100
    with output_folder(folder):
        page = write_report(runs, folder, share, inspection, left_out, baselines())
    print_line(f"Wrote {page} and its figures.")


def _divergences(run: FinishedRun, data: Path) -> tuple[GraphInspection | None, list[str]]:
    """The divergences between the clients of a run, or the reasons why they are left out."""
    from ramet.experiment.named import setting_ignoring_unknown
    from ramet.partition import Reading
    from ramet.partition.inspection import inspect_graphs

    if run.setting == OWN:
        return None, ["the sites' data. Use `ramet data inspect --site FILE …` to see them."]
    try:
        setting = setting_ignoring_unknown(run.setting, run.options)
        if setting.task != "graph-classification":
            return None, []
        return inspect_graphs(setting, Reading(data, run.split_seed)), []
    except RametError as reason:
        return None, [f"the divergences between clients: {reason}"]
