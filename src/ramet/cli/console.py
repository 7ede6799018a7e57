"""Terminal output: results go to stdout, progress and errors to stderr."""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from typing import TYPE_CHECKING, Any, TextIO

import typer
from rich.console import Console

from ramet.errors import RametError, RametWarning, one_line

if TYPE_CHECKING:
    from rich.table import Table

    from ramet.metrics import Record
    from ramet.runs import Result
    from ramet.studies.sweep import Sweep

out, err = Console(), Console(stderr=True)
_ANY_WIDTH = 10_000


def print_line(text: str) -> None:
    out.print(one_line(text), highlight=False, soft_wrap=True, markup=False)


def print_status(text: str) -> None:
    """Print to stderr, which keeps stdout for JSON."""
    err.print(one_line(text), highlight=False, soft_wrap=True, markup=False)


def print_error(text: str) -> None:
    line = f"ramet: {one_line(text)}"
    err.print(line, style="red", markup=False, highlight=False, soft_wrap=True)


def print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


def print_table(table: Table) -> None:
    """Print a table without truncating numbers, even if the terminal is too narrow for it."""
    from ramet.report.plain_table import without_truncation

    console = out if out.is_terminal else Console(width=_ANY_WIDTH)
    console.print(without_truncation(table), crop=False)


def print_list(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    from ramet.report.plain_table import list_table

    print_table(list_table(heads, rows))


def show_result(result: Result, as_json: bool) -> None:
    from ramet.experiment import RunFolder
    from ramet.report.run_tables import missed_rounds, result_table

    if as_json:
        print_json(result.summary.to_json())
    else:
        print_table(result_table(result.summary))
        folder = RunFolder(result.folder)
        for sentence in missed_rounds(folder.records()):
            print_line(sentence)
        explain_metric(folder.experiment().settings.metric, result.summary.metric)
        print_line(f"sha256: {result.summary.sha256}")
        print_line(f"run folder: {result.folder} (`ramet report {result.folder}`: its curves)")
    for sentence in result.untracked_sentences():
        print_error(sentence)
    if result.untracked:
        raise typer.Exit(1)


def explain_metric(chosen: str | None, used: str) -> None:
    """Say why the sites' default is another metric than accuracy."""
    if chosen is None and used == "balanced-accuracy":
        print_line(
            "metric: balanced-accuracy, because a class is rare at some site (under 40 % of an "
            "even share); --metric chooses another."
        )


def fail_if_any(failed: dict[str, str]) -> None:
    """Raise an error with the number of failed runs and the first reason."""
    if failed:
        from ramet.report.text import plural

        name, reason = next(iter(failed.items()))
        raise RametError(f"{plural(len(failed), 'run')} failed. The first: {name}: {reason}")


def run_sweep(sweep: Sweep, jobs: int) -> dict[str, str]:
    """Run a sweep with a progress bar. Returns the reason for each failed run."""
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn

    from ramet.report.text import plural

    runs_in_all = sum(1 for _ in sweep.pairs())
    bar = Progress(
        BarColumn(bar_width=30),
        TextColumn("{task.fields[facts]}", markup=False),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    )
    with exit_on_ctrl_c(), bar:
        task = bar.add_task("sweep", total=sweep.total_rounds(), facts="starting")
        printed = -1

        def observe(rounds: int, runs: int, failures: int) -> None:
            nonlocal printed
            facts = f"{runs} of {plural(runs_in_all, 'run')} done" + (
                f", {failures} failed" if failures else ""
            )
            bar.update(task, completed=rounds, facts=facts)
            if not err.is_terminal and runs > printed:
                printed = runs
                print_status(facts)

        return sweep.execute(jobs, observe)


@contextmanager
def progress() -> Iterator[Callable[[Record], None]]:
    """Show rounds, scores, bytes and time left: a bar in a terminal, plain lines elsewhere."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
    )

    from ramet.report.text import size

    sent = 0
    bar = Progress(
        TextColumn("round"),
        MofNCompleteColumn(),
        BarColumn(bar_width=30),
        TextColumn("{task.fields[facts]}", markup=False),
        TimeRemainingColumn(),
        console=err,
        disable=not err.is_terminal,
    )
    with exit_on_ctrl_c(), warnings_as_lines(), bar:
        task = bar.add_task("rounds", total=None, facts="starting")

        def observe(record: Record) -> None:
            nonlocal sent
            sent += record.bytes_up + record.bytes_down
            facts = f"test {record.shown('test')}  val {record.shown('val')}  {size(sent)} sent"
            if record.failed:
                facts += f"  without {', '.join(record.failed)}"
            bar.update(task, completed=record.round, total=record.rounds, facts=facts)
            if not err.is_terminal and _is_logged(record):
                print_status(f"round {record.round} of {record.rounds}: {facts}")

        yield observe


def _is_logged(record: Record) -> bool:
    return record.round in (1, 2, 5, record.rounds) or record.round % 10 == 0


@contextmanager
def exit_on_ctrl_c() -> Iterator[None]:
    """Print how to continue, and exit with 130."""
    try:
        yield
    except KeyboardInterrupt as stop:
        print_error(" ".join(getattr(stop, "__notes__", ["stopped."])))
        raise typer.Exit(130) from stop


@contextmanager
def warnings_as_lines() -> Iterator[None]:
    """Print warnings of Ramet immediately, each as one line."""
    with warnings.catch_warnings():
        default = warnings.showwarning

        def show(
            message: Warning | str,
            category: type[Warning],
            filename: str,
            lineno: int,
            file: TextIO | None = None,
            line: str | None = None,
        ) -> None:
            if issubclass(category, RametWarning):
                print_error(str(message))
            else:
                default(message, category, filename, lineno, file, line)

        warnings.showwarning = show
        yield


def watch_lines(lines: Callable[[], list[str]]) -> None:
    """Redraw all lines every two seconds; without a terminal, print only new lines."""
    import time

    from rich.live import Live
    from rich.text import Text

    before: list[str] = []
    live = Live(console=out, auto_refresh=False) if out.is_terminal else None
    with suppress(KeyboardInterrupt), live or nullcontext():
        while True:
            now = lines()
            if live:
                live.update(Text("\n".join(map(one_line, now))), refresh=True)
            else:
                for line in (line for line in now if line not in before):
                    print_line(line)
            before = now
            time.sleep(2.0)
