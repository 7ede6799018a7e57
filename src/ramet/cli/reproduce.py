"""`ramet reproduce`: papers' tables and figures, and the ledger of printed cells."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ramet.cli.arguments import Data, Jobs, Json, Seeds
from ramet.cli.console import fail_if_any, out, print_json, print_line, print_table, run_sweep
from ramet.errors import RametError

if TYPE_CHECKING:
    from ramet.papers.reproduction import Reproduction

app = typer.Typer()


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
    from ramet.papers import printed
    from ramet.papers.reproduction import Reproduction
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

    from ramet.papers.ledger import ledger
    from ramet.papers.ledger_tables import queue_table, status_table, totals

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
    from ramet.papers.ledger_tables import counts
    from ramet.papers.reproduction_tables import order_table, reproduced_table, saving_table

    cells = plan.reproduced()
    about = "scores in % ± std (seeds); sizes in scalars and KB"
    print_table(reproduced_table(cells, f"{name}: {about}"))
    print_line(counts(cells))
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
    from ramet.papers import figures
    from ramet.papers.reproduction_tables import saving_table
    from ramet.report import drawing

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
