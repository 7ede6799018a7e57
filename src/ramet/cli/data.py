"""The clients' data: `ramet data inspect` and `ramet data check`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ramet.cli.arguments import (
    Data,
    Json,
    Options,
    Setting,
    Sites,
    data_folder,
    setting_and_options,
)
from ramet.cli.console import complain, print_json, print_table, say
from ramet.errors import RametError

if TYPE_CHECKING:
    from rich.table import Table

    from ramet.data.own import Problem
    from ramet.partition.inspection import Inspection

_ALIKE = 20
"""How many problems of one column are shown; the rest are most likely the same mistake."""

app = typer.Typer()
data_app = typer.Typer(
    help="Look at the clients' data.", no_args_is_help=True, suggest_commands=False
)
app.add_typer(data_app, name="data")


@data_app.command("inspect")
def inspect_data(
    setting: Setting = None,
    site: Sites = None,
    data: Data = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Also draw the divergences into this folder.")
    ] = None,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Describe each client's graphs and how far the clients are apart, or the kinds of links.

    For graphs with several node types: types, relations, held-out pairs, and who learns what.

    \b
    Examples:
    ramet data inspect --setting cross-diff --out pictures
    ramet data inspect --site north/site.toml --site south/site.toml
    """
    from ramet.experiment import SPLIT_SEED, make_folder
    from ramet.experiment.named import setting_named
    from ramet.partition import Reading
    from ramet.partition.inspection import GraphInspection, inspect
    from ramet.report import figures

    name, options = setting_and_options(setting, site, option)
    seen = inspect(setting_named(name, options), Reading(data_folder(data), SPLIT_SEED))
    if folder is not None and isinstance(seen, GraphInspection):
        make_folder(folder)
        drawn = figures.heterogeneity(list(seen.clients), seen.divergences)
        figures.save(drawn, folder, "heterogeneity")
    if as_json:
        print_json(seen.to_json())
        return
    for table in _tables(seen, name):
        print_table(table)


def _tables(seen: Inspection, setting: str) -> list[Table]:
    from ramet.partition.inspection import LinkInspection, RelationInspection
    from ramet.report import data_tables as tables

    if isinstance(seen, RelationInspection):
        return [
            tables.types_table(seen.types, setting),
            tables.relations_table(seen.relations),
            tables.specialities_table(seen.clients),
        ]
    if isinstance(seen, LinkInspection):
        return [tables.kinds_table(seen.kinds, setting), tables.links_table(seen.clients)]
    return [tables.portrait_table(seen.clients, seen.divergences, setting)]


@data_app.command("check")
def check_data(
    file: Annotated[Path, typer.Argument(help="The TOML file that describes a site's data.")],
    as_json: Json = False,
) -> None:
    """Look for problems in a site's own data, show what there is, write their fingerprint.

    The fingerprint has names of types, features and classes, and no data; sites compare theirs
    before the first round. Exits with 1 if there are problems.

    Example: ramet data check north/site.toml
    """
    from dataclasses import asdict

    from ramet.data.own import check_site, statistics
    from ramet.experiment import SPLIT_SEED
    from ramet.report.data_tables import site_table
    from ramet.report.text import several

    if not file.is_file():
        raise RametError(
            f"there is no file {file}. Give the TOML file that describes the site's data."
        )
    checked = check_site(file)
    site, fingerprint = checked.site, file.with_suffix(".fingerprint.json")
    counted = statistics(site, SPLIT_SEED) if site else None
    if site is not None:
        try:
            fingerprint.write_text(site.schema.text())
        except OSError as error:
            raise RametError(
                f"cannot write {fingerprint} ({error.strerror}). Make its folder writable."
            ) from error
    if as_json:
        problems = [asdict(problem) for problem in checked.problems]
        print_json({"problems": problems, "statistics": counted})
    elif site is not None and counted is not None:
        print_table(site_table(site.name, site.schema.task, counted))
        say(f"No problems. Fingerprint: {fingerprint}")
    else:
        _say_problems(checked.problems)
    if site is None:
        count = several(checked.count, "problem")
        more = f" The first {len(checked.problems):,} are shown." if checked.hidden else ""
        complain(f"{file} and its files have {count}.{more}")
        raise typer.Exit(1)


def _say_problems(problems: Sequence[Problem]) -> None:
    alike: Counter[tuple[str, str | None]] = Counter()
    for problem in problems:
        alike[problem.file, problem.column] += 1
        if alike[problem.file, problem.column] <= _ALIKE:
            say(str(problem))
    for (name, column), count in alike.items():
        if count > _ALIKE:
            place = name if column is None else f"{name}, column '{column}'"
            say(f"{place}: {count - _ALIKE:,} more; --json lists them all.")
