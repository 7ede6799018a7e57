"""`ramet compare`: several methods over several seeds and splits."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ramet.cli import completion
from ramet.cli.arguments import (
    OWN,
    Jobs,
    Json,
    Options,
    Rounds,
    Seeds,
    Setting,
    Sites,
    Target,
    run_options,
    setting_and_options,
)
from ramet.cli.console import (
    explain_metric,
    fail_if_any,
    print_json,
    print_line,
    print_table,
    run_sweep,
)
from ramet.run_options import CODE, STUDY_KEYWORDS, Computing

if TYPE_CHECKING:
    from ramet.studies.comparison import Standing
    from ramet.studies.finished_run import FinishedRuns
    from ramet.studies.sites import SiteStandings
    from ramet.studies.sweep import Sweep

app = typer.Typer()
ALONE = "local"
PATIENCE, MOST_ROUNDS = 30, 500
"""For the user's own sites, which are compared when they have converged."""


@app.command()
@run_options(*STUDY_KEYWORDS)
def compare(
    methods: Annotated[
        list[str],
        typer.Argument(
            metavar="METHOD...",
            autocompletion=completion.method,
            help="Names from `ramet list methods`, or file.py:factory, each with its options.",
        ),
    ],
    setting: Setting = None,
    site: Sites = None,
    seeds: Seeds = "1-5",
    rounds: Rounds = None,
    patience: Annotated[
        int | None,
        typer.Option(
            min=1,
            metavar="N",
            help="Train each method until its mean validation score has not risen for N rounds, "
            f"but at most --rounds. Default: never; with --site and without --rounds {PATIENCE}, "
            f"of at most {MOST_ROUNDS} rounds.",
        ),
    ] = None,
    jobs: Jobs = 2,
    target: Target = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Sweep folder. Default: sweeps/SETTING.")
    ] = None,
    options: Options = None,
    splits: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of splits, the first with --split-seed. A setting that divides one "
            "dataset among clients is also divided anew.",
        ),
    ] = 1,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="DIR",
            help="Keep a small file per finished run in DIR; runs kept there are not repeated.",
        ),
    ] = None,
    without_links: Annotated[
        bool,
        typer.Option(
            "--without-links",
            help="Also run every method without links, and gradient boosting at each site, to see "
            "whether the graph helps.",
        ),
    ] = False,
    match: Annotated[
        bool,
        typer.Option(
            "--match-parameters",
            help="Afterwards also run every smaller method, widened to the size of the best one.",
        ),
    ] = False,
    as_good: Annotated[
        float | None,
        typer.Option(
            min=0.0,
            metavar="POINTS",
            help="Also test whether each method is as good as the baseline, give or take POINTS.",
        ),
    ] = None,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Run several methods over several seeds and splits, in parallel, and compare them.

    METHOD is a name from `ramet list methods`, or file.py:factory. Options of one method follow its
    name after commas; merge= and activation= come last. Rerun the same command to continue.

    Gains come with 95 % intervals and effect sizes; with five or more splits or seeds, also with
    p-values, adjusted for the number of methods too (Holm). Only with several --splits do the
    intervals cover the choice of samples.

    If `local` is among the methods, each site is compared with training alone, with a 95 % interval
    over splits, over seeds, or with a single run over the site's test samples. For your own sites,
    `local` is added, and all methods are trained until validation no longer rises. While it does,
    no verdict is final.

    \b
    Examples:
    ramet compare local fedavg fedstar --setting tiny --seeds 1-3
    ramet compare local feddense,width=16 feddense,activation=restart --setting single
    ramet compare fedavg fedavg,network=sage fedprox,mu=0.1 --setting cora
    ramet compare fedavg --site north/site.toml --site south/site.toml --seeds 1 --splits 5
    """
    from ramet.experiment import MethodSpec
    from ramet.options import allow_code, folder_name
    from ramet.studies.archive import keep, kept
    from ramet.studies.equal_sizes import winner, with_equal_sizes
    from ramet.studies.sweep import Sweep, parse_seeds

    name, common = setting_and_options(setting, site, options)
    specs = tuple(MethodSpec.parse(text) for text in _with_local(methods, name))
    allow_code(name, *(given.get(kind) for kind in CODE), *(part for s in specs for part in s.code))
    computing = Computing.taken_from(given)
    sweep = Sweep(
        methods=specs,
        setting=name,
        seeds=parse_seeds(seeds),
        folder=(folder or Path("sweeps") / folder_name(name)).absolute(),
        options=common,
        splits=splits,
        given={**given, **_length(rounds, patience, name)},
        computing=computing,
        kept=() if archive is None else kept(archive),
    )
    if without_links:
        from ramet.studies.table_only import with_tables

        sweep = with_tables(sweep)
    failed = _checked_and_run(sweep, jobs)
    if match and not failed:
        sweep = with_equal_sizes(sweep, winner(sweep))
        failed = _checked_and_run(sweep, jobs)
    if archive is not None:
        keep((run for runs in sweep.finished().values() for run in runs.values()), archive)
    _print_comparison(
        sweep,
        None if target is None else target / 100,
        None if as_good is None else as_good / 100,
        as_json,
        without_links,
    )
    fail_if_any(failed)


def _checked_and_run(sweep: Sweep, jobs: int) -> dict[str, str]:
    from ramet.studies.unchanged_data import check_data

    sweep.check()
    check_data(sweep)
    return run_sweep(sweep, jobs)


def _length(rounds: int | None, patience: int | None, setting: str) -> dict[str, int | None]:
    """How long to train: the user's own sites to convergence, unless rounds are given."""
    if setting == OWN and rounds is None:
        return {"rounds": MOST_ROUNDS, "patience": patience or PATIENCE}
    return {"rounds": rounds, "patience": patience}


def _with_local(methods: list[str], setting: str) -> list[str]:
    """The methods; for user-defined sites, always with training alone."""
    has_local = any(text.partition(",")[0].startswith(ALONE) for text in methods)
    return methods if setting != OWN or has_local else [ALONE, *methods]


def _print_comparison(
    sweep: Sweep, target: float | None, margin: float | None, as_json: bool, without_links: bool
) -> None:
    from ramet.options import without_folder
    from ramet.studies.choice import reversals
    from ramet.studies.comparison import standings
    from ramet.studies.sites import site_standings
    from ramet.studies.unchanged_data import sites_with_own_split

    finished = sweep.finished()
    rows, by_site = standings(finished, target, margin), site_standings(finished)
    reversed_pairs = reversals(finished)
    tables = _beside_tables(finished) if without_links else {}
    if as_json:
        print_json(_json(rows, {"sites": by_site, **tables}, reversed_pairs))
        return
    _print_standings(rows, reversed_pairs, without_folder(sweep.setting), target, margin)
    explain_metric(sweep.given["metric"], next((row.metric for row in rows), ""))
    _print_sites(by_site)
    for question, found in tables.items():
        _print_answers(question, found)
    if by_site and sweep.splits > 1:
        _print_own_splits(sites_with_own_split(sweep))
    print_line(f"runs: {sweep.folder}")


def _json(
    rows: list[Standing],
    by_site: dict[str, list[SiteStandings]],
    reversed_pairs: list[tuple[str, str]],
) -> list[dict[str, Any]]:
    from dataclasses import asdict

    sites = {
        key: {one.label: [site.to_json() for site in one.sites] for one in found}
        for key, found in by_site.items()
    }
    return [
        {
            **asdict(row),
            "order_depends_on_round_with": [
                other
                for pair in reversed_pairs
                if row.label in pair
                for other in pair
                if other != row.label
            ],
            **{key: found.get(row.label, []) for key, found in sites.items()},
        }
        for row in rows
    ]


def _print_standings(
    rows: list[Standing],
    reversed_pairs: list[tuple[str, str]],
    setting: str,
    target: float | None,
    margin: float | None,
) -> None:
    from ramet.report.study_tables import comparison_table, gain_table, reversal_sentence

    print_table(comparison_table(rows, setting, target))
    if any(row.gain is not None for row in rows):
        print_table(gain_table(rows, margin))
    for reason in dict.fromkeys(row.not_final for row in rows if row.not_final):
        labels = ", ".join(row.label for row in rows if row.not_final == reason)
        print_line(f"not final for {labels}: {reason}.")
    if reversed_pairs:
        print_line(reversal_sentence(reversed_pairs))


def _print_sites(by_site: list[SiteStandings]) -> None:
    from ramet.report.site_tables import MOST_SITES, about, sentence, sites_table

    if not by_site:
        return
    if len(by_site[0].sites) <= MOST_SITES:
        print_table(sites_table(by_site))
    else:
        print_line(f"each site, compared with local; {about(by_site[0])}:")
    for one in by_site:
        print_line(sentence(one))


def _beside_tables(finished: FinishedRuns) -> dict[str, list[SiteStandings]]:
    """What links add, and the methods beside gradient boosting."""
    from ramet.studies.table_only import link_standings, tree_standings

    return {"links": link_standings(finished), "trees": tree_standings(finished)}


def _print_answers(question: str, found: list[SiteStandings]) -> None:
    from ramet.report.site_tables import MOST_SITES, QUESTIONS, sentence, sites_table

    asked = QUESTIONS[question]
    if not found:
        print_line(f"{asked.title}: {asked.nothing}.")
        return
    if len(found[0].sites) <= MOST_SITES:
        print_table(sites_table(found, asked))
    print_line(asked.title)
    for one in found:
        print_line(f"  {sentence(one)}")


def _print_own_splits(sites: list[str]) -> None:
    """Name the sites for which intervals over splits do not cover the choice of samples."""
    if sites:
        gives = f"{', '.join(sites)} {'gives its' if len(sites) == 1 else 'give their'} own split"
        print_line(
            f"{gives}, which --splits does not change: there, intervals cover training only."
        )
