"""Many runs: `ramet compare`, `ramet reproduce` and `ramet report`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ramet.cli import completion
from ramet.cli.arguments import (
    OWN,
    Activation,
    Data,
    Jobs,
    Json,
    Merge,
    Options,
    Rounds,
    Seeds,
    Setting,
    Sites,
    SplitSeed,
    Target,
    data_folder,
    setting_and_options,
)
from ramet.cli.console import fail_if_any, out, print_json, print_table, run_sweep, say
from ramet.errors import RametError

if TYPE_CHECKING:
    from ramet.partition.inspection import GraphInspection
    from ramet.studies.finished_run import FinishedRun
    from ramet.studies.reproduction import Reproduction

app = typer.Typer()


@app.command()
def compare(
    methods: Annotated[
        list[str], typer.Argument(metavar="METHOD...", autocompletion=completion.method)
    ],
    setting: Setting = None,
    site: Sites = None,
    seeds: Seeds = "1-5",
    rounds: Rounds = None,
    jobs: Jobs = 2,
    target: Target = None,
    data: Data = None,
    folder: Annotated[
        Path | None, typer.Option("--out", help="Folder of the sweep. Default: sweeps/SETTING.")
    ] = None,
    option: Options = None,
    activation: Activation = None,
    merge: Merge = None,
    split_seed: SplitSeed = 123,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--keep",
            metavar="DIR",
            help="Keep a small file per finished run in DIR, and do not repeat those kept there.",
        ),
    ] = None,
    match: Annotated[
        bool,
        typer.Option(
            "--match-parameters",
            help="Then widen every smaller method to the winner's size, and run those too.",
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Run several METHODs over several seeds, in parallel, and compare them.

    Rerun to continue. Options of one method follow a comma, its merging and activation last.

    \b
    Examples:
    ramet compare local feddense,width=16 feddense,activation=restart --setting single
    ramet compare local-gcn fed-gcn --site north/site.toml --site south/site.toml
    """
    from dataclasses import asdict

    from ramet.experiment import MethodSpec
    from ramet.report.study_tables import comparison_table
    from ramet.studies.archive import keep, kept
    from ramet.studies.comparison import standings
    from ramet.studies.sweep import Sweep, parse_seeds

    name, options = setting_and_options(setting, site, option)
    sweep = Sweep(
        methods=tuple(MethodSpec.parse(text) for text in methods),
        setting=name,
        seeds=parse_seeds(seeds),
        folder=(folder or Path("sweeps") / name).absolute(),
        rounds=rounds,
        data=data,
        options=options,
        activation=activation,
        merge=merge,
        split_seed=split_seed,
        kept=() if archive is None else kept(archive),
    )
    sweep.check()
    failed = run_sweep(sweep, jobs)
    if match and not failed:
        sweep = sweep.matched(sweep.winner())
        failed = run_sweep(sweep, jobs)
    finished, share = sweep.finished(), None if target is None else target / 100
    rows = standings(finished, share)
    if archive is not None:
        keep((run for runs in finished.values() for run in runs.values()), archive)
    if as_json:
        print_json([asdict(row) for row in rows])
    else:
        print_table(comparison_table(rows, name, share))
        say(f"runs: {sweep.folder}")
    fail_if_any(failed)


@app.command()
def reproduce(
    paper: Annotated[str, typer.Argument(help="feddense, fedstar or fedda.")],
    table: Annotated[str, typer.Argument(help="table2, table3; of fedda also figure2, 5, 6.")],
    only: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME", help="A method or a setting of the table; repeatable."),
    ] = None,
    seeds: Seeds = "1-5",
    rounds: Annotated[
        int | None, typer.Option(help="Number of rounds. Default: the paper's.")
    ] = None,
    jobs: Jobs = 2,
    finished: Annotated[
        bool, typer.Option("--finished", help="Use the runs that are there; start none.")
    ] = False,
    data: Data = None,
    folder: Annotated[
        Path | None,
        typer.Option("--out", help="Folder of the sweeps and figures. Default: sweeps."),
    ] = None,
    archive: Annotated[
        Path | None,
        typer.Option(
            "--kept",
            metavar="DIR",
            help="Use what `compare --keep DIR/SETTING` wrote, and keep new runs there too.",
        ),
    ] = None,
) -> None:
    """Reproduce TABLE, or a figure, of PAPER, and show our figures beside the printed ones.

    Exits with 1 if a figure is further off than allowed, or a claim does not hold. Rerun to
    continue. Runs on `amazon` with 8 clients are in amazon-8, and so on.

    Example: ramet reproduce feddense table2 --only single --only fedstar --seeds 1-3
    """
    from ramet.studies import printed
    from ramet.studies.reproduction import Reproduction
    from ramet.studies.sweep import parse_seeds

    drawn = printed.is_figure(paper, table)
    plan = Reproduction(
        cells=[] if drawn else printed.table(paper, table, only or []),
        panels=printed.figure(paper, table, only or []) if drawn else [],
        seeds=parse_seeds(seeds),
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
    reached = _reproduce_figure(plan, name) if drawn else _reproduce_table(plan, name)
    fail_if_any(failed)
    if not reached:
        raise typer.Exit(1)


def _reproduce_table(plan: Reproduction, name: str) -> bool:
    """Show a table's figures and claims; whether all are reached that were run."""
    from ramet.report.study_tables import order_table, reproduced_table, saving_table

    cells = plan.reproduced()
    about = "scores in % ± std (seeds); sizes in scalars and KB"
    print_table(reproduced_table(cells, f"{name}: {about}"))
    counts = {
        status: sum(cell.status == status for cell in cells)
        for status in ("inside", "outside", "not comparable", "not run")
    }
    if not counts["not comparable"]:
        del counts["not comparable"]
    say(", ".join(f"{count} {status}" for status, count in counts.items()))
    exact, orders, savings = plan.by_shape(), plan.orders(), plan.savings()
    if exact:
        title = "tensors FedAvg sent, beside tensors × rounds × clients"
        print_table(reproduced_table(exact, title, stated="by shape"))
    if orders:
        print_table(order_table(orders))
    if savings:
        print_table(saving_table(savings, "beside FedAvg, on common seeds"))
    return not any(
        [
            *(cell.status == "outside" for cell in (*cells, *exact)),
            *(order.holds is False for order in orders),
            *(not (row.as_good_for_less and row.steadier) for row in savings),
        ]
    )


def _reproduce_figure(plan: Reproduction, name: str) -> bool:
    """Draw a figure's curves from the finished runs, with a table of where they end."""
    from ramet.experiment import make_folder
    from ramet.report import figures
    from ramet.report.study_tables import saving_table

    curves = [(panel, runs) for panel, runs in plan.curves() if any(runs.values())]
    if not curves:
        raise RametError(f"no run of {name} is finished. Leave --finished out.")
    drawn = figures.reproduced_curves(
        [(panel.panel, runs, panel.lines == "best and worst") for panel, runs in curves]
    )
    make_folder(plan.folder)
    file = name.replace(" ", "-")
    figures.save(drawn, plan.folder, file)
    rows = plan.beside_the_first()
    if rows:
        title = f"{name}: last round, beside the first curve of each panel"
        print_table(saving_table(rows, title, claim=False))
    out.print(f"Wrote {plan.folder / file}.png and .svg.", soft_wrap=True)
    return True


@app.command()
def report(
    paths: Annotated[list[Path], typer.Argument(metavar="PATH...")],
    folder: Annotated[Path, typer.Option("--out", help="Folder of the report.")] = Path("report"),
    target: Target = None,
    data: Data = None,
) -> None:
    """Show the finished runs below each PATH as one HTML page, with figures as PNG and SVG.

    PATH is the folder of a sweep, of a run, or one that `ramet compare --keep` wrote.

    Example: ramet report sweeps/single --target 75
    """
    from ramet.experiment import make_folder
    from ramet.report.page import write_report
    from ramet.studies.archive import finished_runs

    runs = finished_runs(paths)
    first = next(run for by_seed in runs.values() for run in by_seed.values())
    apart, left_out = _divergences(first, data_folder(data))
    make_folder(folder)
    share = None if target is None else target / 100
    page = write_report(runs, folder, share, apart, left_out)
    say(f"Wrote {page} and its figures.")


def _divergences(run: FinishedRun, data: Path) -> tuple[GraphInspection | None, list[str]]:
    """How far the clients of a run are apart, with its own options; or why that is left out."""
    from ramet.experiment.named import setting_ignoring_others
    from ramet.partition import Reading
    from ramet.partition.inspection import inspect_graphs

    if run.setting == OWN:
        return None, ["what the sites hold; `ramet data inspect --site FILE …` shows it."]
    try:
        setting = setting_ignoring_others(run.setting, run.options)
        if setting.task != "graph-classification":
            return None, []
        return inspect_graphs(setting, Reading(data, run.split_seed)), []
    except RametError as reason:
        return None, [f"how far the clients are apart; {reason}"]
