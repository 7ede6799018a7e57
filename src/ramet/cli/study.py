"""Commands for many runs: `ramet compare`, `reproduce`, `report` and `board`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ramet.cli import completion
from ramet.cli.arguments import (
    OWN,
    Activation,
    Data,
    Device,
    Dp,
    Engine,
    Jobs,
    Json,
    Merge,
    Metric,
    Network,
    Options,
    Release,
    Rounds,
    Secure,
    Seeds,
    Setting,
    Sites,
    SplitSeed,
    Target,
    Track,
    Workers,
    data_folder,
    setting_and_options,
)
from ramet.cli.console import (
    explain_metric,
    fail_if_any,
    out,
    print_json,
    print_line,
    print_table,
    run_sweep,
)
from ramet.errors import RametError

if TYPE_CHECKING:
    from ramet.partition.inspection import GraphInspection
    from ramet.studies.comparison import Standing
    from ramet.studies.finished_run import FinishedRun, FinishedRuns
    from ramet.studies.reproduction import Reproduction
    from ramet.studies.sites import SiteStandings
    from ramet.studies.sweep import Sweep

app = typer.Typer()
ALONE = "local"
PATIENCE, MOST_ROUNDS = 30, 500
"""For the user's own sites, which are compared when they have converged."""


@app.command()
def compare(
    methods: Annotated[
        list[str],
        typer.Argument(
            metavar="METHOD...",
            autocompletion=completion.method,
            help="Names from `ramet methods`, or file.py:factory, each with its options.",
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
    data: Data = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Sweep folder. Default: sweeps/SETTING.")
    ] = None,
    network: Network = None,
    option: Options = None,
    activation: Activation = None,
    merge: Merge = None,
    release: Release = None,
    metric: Metric = None,
    secure: Secure = False,
    dp: Dp = None,
    split_seed: SplitSeed = 123,
    splits: Annotated[
        int,
        typer.Option(
            min=1,
            help="Number of splits, the first with --split-seed. A setting that divides one "
            "dataset among clients is also divided anew.",
        ),
    ] = 1,
    engine: Engine = "local",
    device: Device = "cpu",
    workers: Workers = None,
    track: Track = None,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="DIR",
            help="Keep a small file per finished run in DIR; runs kept there are not repeated.",
        ),
    ] = None,
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
) -> None:
    """Run several methods over several seeds and splits, in parallel, and compare them.

    METHOD is a name from `ramet methods`, or file.py:factory. Options of one method follow its name
    after commas; merge= and activation= come last. Rerun the same command to continue.

    Gains come with 95 % intervals, effect sizes, and from five splits or seeds on with p-values,
    also adjusted for the number of methods (Holm). Only with several --splits do the intervals
    cover the choice of samples.

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
    from dataclasses import asdict

    from ramet.experiment import MethodSpec
    from ramet.options import allow_code
    from ramet.studies.archive import keep, kept
    from ramet.studies.choice import reversals
    from ramet.studies.comparison import standings
    from ramet.studies.sites import site_standings
    from ramet.studies.sweep import Sweep, parse_seeds

    name, options = setting_and_options(setting, site, option)
    specs = tuple(MethodSpec.parse(text) for text in _with_local(methods, name))
    allow_code(network, activation, merge, release, *(part for s in specs for part in s.code))
    sweep = Sweep(
        methods=specs,
        setting=name,
        seeds=parse_seeds(seeds),
        folder=(folder or Path("sweeps") / name).absolute(),
        **_length(rounds, patience, name),
        data=data,
        network=network,
        options=options,
        activation=activation,
        merge=merge,
        release=release,
        metric=metric,
        secure=secure,
        dp=dp,
        split_seed=split_seed,
        splits=splits,
        engine=engine,
        device=device,
        workers=workers,
        track=tuple(track or ()),
        kept=() if archive is None else kept(archive),
    )
    failed = _checked_and_run(sweep, jobs)
    if match and not failed:
        sweep = sweep.matched(sweep.winner())
        failed = _checked_and_run(sweep, jobs)
    finished, share = sweep.finished(), None if target is None else target / 100
    margin = None if as_good is None else as_good / 100
    rows = standings(finished, share, margin)
    if archive is not None:
        keep((run for runs in finished.values() for run in runs.values()), archive)
    by_site = site_standings(finished)
    if as_json:
        sites = {one.label: [site.to_json() for site in one.sites] for one in by_site}
        flags = reversals(finished)
        print_json(
            [
                {
                    **asdict(row),
                    "order_depends_on_round_with": _others(row.label, flags),
                    "sites": sites.get(row.label, []),
                }
                for row in rows
            ]
        )
    else:
        _print_standings(rows, finished, name, share, margin)
        explain_metric(metric, next((row.metric for row in rows), ""))
        _print_sites(by_site)
        if by_site and splits > 1:
            _print_own_splits(sweep.sites_with_own_split())
        print_line(f"runs: {sweep.folder}")
    fail_if_any(failed)


def _checked_and_run(sweep: Sweep, jobs: int) -> dict[str, str]:
    sweep.check()
    sweep.check_data()
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


def _others(label: str, pairs: list[tuple[str, str]]) -> list[str]:
    """The methods that are in a pair with this one."""
    return [other for pair in pairs if label in pair for other in pair if other != label]


def _print_standings(
    rows: list[Standing],
    runs: FinishedRuns,
    setting: str,
    target: float | None,
    margin: float | None,
) -> None:
    from ramet.report.study_tables import comparison_table, gain_table, reversal_sentence
    from ramet.studies.choice import reversals

    print_table(comparison_table(rows, setting, target))
    if any(row.gain is not None for row in rows):
        print_table(gain_table(rows, margin))
    for reason in dict.fromkeys(row.not_final for row in rows if row.not_final):
        labels = ", ".join(row.label for row in rows if row.not_final == reason)
        print_line(f"not final for {labels}: {reason}.")
    reversed_pairs = reversals(runs)
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


def _print_own_splits(sites: list[str]) -> None:
    """Name the sites for which intervals over splits do not cover the choice of samples."""
    if sites:
        gives = f"{', '.join(sites)} {'gives its' if len(sites) == 1 else 'give their'} own split"
        print_line(
            f"{gives}, which --splits does not change: there, intervals cover training only."
        )


@app.command()
def reproduce(
    paper: Annotated[str | None, typer.Argument(help="feddense, fedstar, fedda or fedpub.")] = None,
    table: Annotated[
        str | None, typer.Argument(help="table1, table2, table3, figure2, figure5 or figure6.")
    ] = None,
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="Only this method or setting of the table; repeatable."),
    ] = None,
    seeds: Seeds = "1-5",
    splits: Annotated[int, typer.Option(min=1, help="Number of splits.")] = 1,
    rounds: Annotated[
        int | None, typer.Option(help="Number of rounds. Default: the paper's.")
    ] = None,
    jobs: Jobs = 2,
    finished: Annotated[
        bool, typer.Option("--finished", help="Use the runs that are finished; start none.")
    ] = False,
    data: Data = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder for sweeps and figures. Default: sweeps."),
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--kept",
            metavar="DIR",
            help="Use the runs that `compare --keep DIR/SETTING` wrote, and keep new ones there.",
        ),
    ] = None,
    everything: Annotated[
        bool, typer.Option("--all", help="All papers, from kept runs; with --status or --queue.")
    ] = False,
    status: Annotated[
        bool, typer.Option("--status", help="With --all: the status of every printed cell.")
    ] = False,
    queue: Annotated[
        bool,
        typer.Option("--queue", help="With --all: commands for what is missing, with core-hours."),
    ] = False,
    as_json: Json = False,
) -> None:
    """Reproduce a paper's table or figure, and compare it with the printed one.

    PAPER TABLE is one of: feddense table2, feddense table3, fedstar table2, fedda table2, fedda
    table3, fedda figure2, fedda figure5, fedda figure6.

    A score holds if its 95 % interval, over splits or the seeds of one split, is within the
    tolerance; it fails if the interval is outside, and is undecided otherwise or with fewer than
    five runs. Exits with 1 if a number or a claim fails. Rerun the same command to continue. Each
    number of clients has its own folder, such as sweeps/amazon-8.

    \b
    Examples:
    ramet reproduce feddense table2 --only single --only fedstar --seeds 1 --splits 5
    ramet reproduce --all --status --kept results
    ramet reproduce --all --queue --kept results --json
    """
    if everything:
        _print_ledger(archive or Path("results"), status, queue, as_json)
        return
    if paper is None or table is None or status or queue or as_json:
        raise RametError(
            "give a paper and a table, such as `ramet reproduce feddense table2`, or --all with "
            "--status or --queue. Only these two print JSON."
        )
    from ramet.studies import printed
    from ramet.studies.reproduction import Reproduction
    from ramet.studies.sweep import parse_seeds

    is_figure = printed.is_figure(paper, table)
    plan = Reproduction(
        cells=[] if is_figure else printed.table(paper, table, only or []),
        panels=printed.figure(paper, table, only or []) if is_figure else [],
        seeds=parse_seeds(seeds),
        splits=splits,
        folder=(folder or Path("sweeps")).absolute(),
        rounds=rounds,
        data=data,
        kept=archive,
    )
    failed: dict[str, str] = {}
    for sweep in plan.sweeps():
        sweep.check()
    if not finished:
        for sweep in plan.sweeps():
            failed |= run_sweep(sweep, jobs)
        plan.keep()
    name = f"{paper} {table}"
    reproduced = _reproduce_figure(plan, name) if is_figure else _reproduce_table(plan, name)
    fail_if_any(failed)
    if not reproduced:
        raise typer.Exit(1)


def _print_ledger(results: Path, status: bool, queue: bool, as_json: bool) -> None:
    from dataclasses import asdict

    from ramet.report.ledger_tables import queue_table, status_table, totals
    from ramet.studies.ledger import ledger

    if status == queue:
        raise RametError("--all needs either --status or --queue. Add one of them.")
    if not results.is_dir():
        raise RametError(f"{results} is not a folder of kept runs. Give one with --kept.")
    found = ledger(results)
    if as_json:
        print_json({"queue": [asdict(one) for one in found.queue]} if queue else found.to_json())
        return
    print_table(queue_table(found) if queue else status_table(found))
    print_line(totals(found))


def _reproduce_table(plan: Reproduction, name: str) -> bool:
    """Print a table's numbers and claims. Returns whether all that were run are reproduced."""
    from ramet.report.study_tables import order_table, reproduced_table, saving_table

    cells = plan.reproduced()
    about = "scores in % ± std (seeds); sizes in scalars and KB"
    print_table(reproduced_table(cells, f"{name}: {about}"))
    counts = {
        status: sum(cell.status == status for cell in cells)
        for status in ("exact", "holds", "undecided", "fails", "other data", "not run")
    }
    print_line(", ".join(f"{count} {status}" for status, count in counts.items() if count))
    exact, orders, savings = plan.tensor_counts(), plan.orders(), plan.savings()
    if exact:
        title = "tensors that FedAvg sent, and tensors × rounds × clients"
        print_table(reproduced_table(exact, title, stated="expected"))
    if orders:
        print_table(order_table(orders))
    if savings:
        print_table(saving_table(savings, "compared with FedAvg on common seeds"))
    return not any(
        [
            *(cell.status == "fails" for cell in (*cells, *exact)),
            *(order.status == "fails" for order in orders),
            *(row.as_good_for_less == "fails" for row in savings),
        ]
    )


def _reproduce_figure(plan: Reproduction, name: str) -> bool:
    """Draw a figure's curves from the finished runs, and print a table of their last round."""
    from ramet.experiment import output_folder
    from ramet.report import drawing, figures
    from ramet.report.study_tables import saving_table

    curves = [(panel, runs) for panel, runs in plan.curves() if any(runs.values())]
    if not curves:
        raise RametError(f"no run of {name} is finished. Run the command without --finished.")
    figure = figures.reproduced_curves(
        [(panel.panel, runs, panel.lines == "best and worst") for panel, runs in curves]
    )
    file = name.replace(" ", "-")
    with output_folder(plan.folder):
        drawing.save(figure, plan.folder, file)
    rows = plan.compared_with_first_curve()
    if rows:
        title = f"{name}: last round, compared with the first curve of each panel"
        print_table(saving_table(rows, title, claim=False))
    out.print(f"Wrote {plan.folder / file}.png and .svg.", soft_wrap=True)
    return True


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

    PATH is a sweep folder, a run folder, or a folder that `ramet compare --keep` wrote.

    Example: ramet report sweeps/single --target 75
    """
    from ramet.experiment import output_folder
    from ramet.report.page import write_report
    from ramet.studies.archive import finished_runs

    runs = finished_runs(paths)
    first = next(run for by_seed in runs.values() for run in by_seed.values())
    inspection, left_out = _divergences(first, data_folder(data))
    share = None if target is None else target / 100
    with output_folder(folder):
        page = write_report(runs, folder, share, inspection, left_out)
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
    from ramet.report import drawing
    from ramet.report.board import board_markdown, figure_name, panel_figure
    from ramet.studies.board import board as ranked

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
