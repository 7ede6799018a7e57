"""Commands for the clients' data: `ramet data inspect`, `check` and `drift`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ramet.cli.arguments import (
    Context,
    Data,
    Json,
    New,
    NewSite,
    Options,
    Setting,
    Sites,
    data_folder,
    setting_and_options,
)
from ramet.cli.console import print_error, print_json, print_line, print_status, print_table
from ramet.errors import RametError

if TYPE_CHECKING:
    from rich.table import Table

    from ramet.data.own.problems import Problem
    from ramet.partition.inspection import Inspection

_SHOWN_PER_COLUMN = 5
"""Problems shown per column; the rest are most likely the same mistake."""

app = typer.Typer()
data_app = typer.Typer(
    help="Inspect and check the clients' data.", no_args_is_help=True, suggest_commands=False
)
app.add_typer(data_app, name="data")


@data_app.command("inspect")
def inspect_data(
    setting: Setting = None,
    site: Sites = None,
    data: Data = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Also write figures of the differences into this folder."),
    ] = None,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Summarise each client's data and how much the clients differ.

    Graph classification: sizes and classes. Node classification: kinds of links and their
    homophily, and classes. Several node types or relations: types, relations, held-out pairs, and
    which relations each client learns to predict. For all: how much the clients differ in classes
    or relations, features and structure, with a figure if --out is given.

    \b
    Examples:
    ramet data inspect --setting tiny --out figures
    ramet data inspect --site north/site.toml --site south/site.toml
    """
    from ramet.experiment import SPLIT_SEED, output_folder
    from ramet.experiment.named import setting_named
    from ramet.options import allow_code, without_folder
    from ramet.partition import Reading
    from ramet.partition.inspection import LinkInspection, inspect, to_json
    from ramet.report import data_figures, drawing, figures

    name, options = setting_and_options(setting, site, option)
    allow_code(name)
    named, reading = setting_named(name, options), Reading(data_folder(data), SPLIT_SEED)
    inspection = inspect(named, reading)
    if folder is not None:
        if not inspection.divergences:
            raise RametError("there is no figure: it compares 2 to 50 clients. Omit --out.")
        with output_folder(folder):
            figure = figures.heterogeneity(list(inspection.clients), inspection.divergences)
            drawing.save(figure, folder, "heterogeneity")
            if isinstance(inspection, LinkInspection):
                drawing.save(data_figures.class_shares(inspection.classes), folder, "classes")
    if as_json:
        print_json(to_json(inspection))
        return
    for table in _tables(inspection, without_folder(name)):
        print_table(table)
    for remark in (one for client in named.clients for one in named.remarks(client, reading)):
        print_line(f"Note: {remark}.")


def _tables(inspection: Inspection, setting: str) -> list[Table]:
    from ramet.partition.inspection import LinkInspection, RelationInspection
    from ramet.report import data_tables as tables

    names, classes = list(inspection.clients), getattr(inspection, "classes", {})
    found = inspection.divergences
    differences = [tables.differences_table(names, found, classes)] if found else []
    if isinstance(inspection, RelationInspection):
        return [
            tables.types_table(inspection.types, setting),
            tables.relations_table(inspection.relations),
            tables.specialities_table(inspection.clients),
            *differences,
        ]
    if isinstance(inspection, LinkInspection):
        return [
            tables.kinds_table(inspection.kinds, setting),
            tables.links_table(inspection.clients),
            *differences,
        ]
    return [tables.graphs_table(inspection.clients, inspection.divergences, setting)]


@data_app.command("check")
def check_data(
    file: Annotated[Path, typer.Argument(help="TOML file that describes a site's data.")],
    show_all: Annotated[
        bool, typer.Option("--all", help="Show every problem, not only the first of each column.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Check the data that FILE describes, print counts, and write a fingerprint.

    FILE is a site's TOML file. The fingerprint contains the task and the names of types, features
    and classes, but no data. Sites compare their fingerprints before the first round. Columns are
    summed up, with what other members learn about each. Exits with 1 if there are problems.

    Example: ramet data check north/site.toml
    """
    from dataclasses import asdict

    from ramet.data.own.advice import column_summaries, warnings
    from ramet.data.own.site import check_site, statistics
    from ramet.disk import write_atomically
    from ramet.experiment import SPLIT_SEED
    from ramet.report.data_tables import columns_table, site_table
    from ramet.report.text import plural

    if not file.is_file():
        raise RametError(
            f"{file} does not exist. Give the TOML file that describes the site's data."
        )
    checked = check_site(file)
    site, fingerprint = checked.site, file.with_suffix(".fingerprint.json")
    counts = statistics(site, SPLIT_SEED) if site else None
    if site is not None:
        try:
            write_atomically(fingerprint, site.schema.text())
        except OSError as error:
            raise RametError(
                f"cannot write {fingerprint} ({error.strerror}). Make its folder writable."
            ) from error
    if as_json:
        problems = [asdict(problem) for problem in checked.problems]
        columns = [asdict(summary) for summary in column_summaries(site)] if site else []
        advice = warnings(site) if site else []
        print_json(
            {
                "problems": problems,
                "statistics": counts,
                "columns": columns,
                "remarks": [*site.remarks] if site else [],
                "warnings": advice,
            }
        )
    elif site is not None and counts is not None:
        print_table(site_table(site.name, site.schema.task, counts))
        if site.columns:
            print_table(columns_table(column_summaries(site)))
        if site.classes is not None:
            print_line(f"Other members learn that {_rarity(site.sums.rare_classes)}.")
        for remark in site.remarks:
            print_line(f"Note: {remark}.")
        for warning in warnings(site):
            print_line(f"Warning: {warning}.")
        print_line(f"No problems. Fingerprint: {fingerprint}")
    else:
        _print_problems(checked.problems, len(checked.problems) if show_all else _SHOWN_PER_COLUMN)
    if site is None:
        count = plural(checked.count, "problem")
        more = f" The first {len(checked.problems):,} are shown." if checked.omitted else ""
        print_error(f"{file} and its files have {count}.{more}")
        raise typer.Exit(1)


@data_app.command("without")
def data_without(
    file: Annotated[Path, typer.Argument(help="TOML file that describes a site's data.")],
    rows: Annotated[Path, typer.Option(metavar="IDS", help="A file with an id per line.")],
    node_type: Annotated[
        str | None, typer.Option("--type", help="Of which node type the ids are, if of several.")
    ] = None,
) -> None:
    """Write a copy of the data that FILE describes, without some graphs or nodes.

    Their links are left out as well. A run with the copy has never known them.

    Example: ramet data without north/site.toml --rows withdrawn.txt
    """
    from ramet.forget import People

    people = People.read(rows, node_type)
    for name, count in people.rows_in(file).items():
        print_line(f"{name}: {count} rows left out")
    print_line(f"written: {people.removed_from(file)}")


@data_app.command("drift")
def drift_data(
    place: Annotated[
        Path,
        typer.Argument(
            metavar="SITE_OR_RUN",
            help="A site's TOML file, the folder of a finished run, or a site's own folder.",
        ),
    ],
    new: New = None,
    site: NewSite = None,
    client: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Client of the run. Default: the site's name."),
    ] = None,
    context: Context = None,
    figure: Annotated[Path | None, typer.Option(help="Also draw a .png or .svg file.")] = None,
    as_json: Json = False,
) -> None:
    """Tell whether new rows are like those of before, at the site alone.

    For each column, and for the links of each node by edge type: a two-sample test with Holm's
    correction, the population stability index, the range, new categories, and the share missing.
    Nothing is sent.

    \b
    Examples:
    ramet data drift north/site.toml --new july --figure drift.png
    ramet data drift hospitals-north --new july
    """
    from ramet.prediction import Source
    from ramet.prediction.files import check_output
    from ramet.report.drawing import save_as
    from ramet.report.drift import drift_figure, drift_table
    from ramet.studies.drift import drift_of

    if not place.exists():
        raise RametError(f"there is no {place}. Give a site's TOML file or the folder of a run.")
    if figure is not None:
        check_output(figure, (".png", ".svg"))
    found = drift_of(place, Source(site, new, context), client)
    for note in found.notes:
        print_status(f"{note}.")
    if as_json:
        print_json(found.to_json())
    else:
        print_table(drift_table(found))
        print_line(f"{found.verdict}.")
    if figure is not None:
        save_as(drift_figure(found), figure)
        print_status(f"picture: {figure}")


def _rarity(rare: bool) -> str:
    what = "a class is rare here (which one is not told)" if rare else "no class is rare here"
    return f"{what}; it decides the default metric"


def _print_problems(problems: Sequence[Problem], shown: int) -> None:
    counts: Counter[tuple[str, str | None]] = Counter()
    for problem in problems:
        counts[problem.file, problem.column] += 1
        if counts[problem.file, problem.column] <= shown:
            print_line(str(problem))
    for (name, column), count in counts.items():
        if count > shown:
            place = name if column is None else f"{name}, column '{column}'"
            print_line(f"{place}: {count - shown:,} more; --all lists them.")
