"""`ramet try`: check that a method keeps Ramet's promises."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any

import click
import typer

from ramet.cli import completion
from ramet.cli.arguments import Json, Method, Options, data_folder, run_options, setting_and_options
from ramet.cli.console import print_json, print_line, print_list, print_status

if TYPE_CHECKING:
    from ramet.studies.trial.checks import Report
    from ramet.tasks import TaskName

app = typer.Typer()
_SHOWN = {"ok": "ok", "failed": "FAILED", "skipped": "skipped"}


@app.command("try")
@run_options("network", "activation", "merge", "release", "data")
def try_method(
    method: Method,
    setting: Annotated[
        str | None,
        typer.Option(
            autocompletion=completion.setting,
            help="A name from `ramet list settings`, or file.py:setting. Default: a small one, "
            "without downloads, for the method's task.",
        ),
    ] = None,
    task: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="What is predicted: a name such as node-regression, file.py:task, or `all`. "
            "Default: that of the method or the setting, or else the first that suits.",
        ),
    ] = None,
    options: Options = None,
    rounds: Annotated[int, typer.Option(min=2, help="Number of rounds of each run.")] = 3,
    engine: Annotated[
        list[str] | None,
        typer.Option(
            click_type=click.Choice(["local", "ray", "superlink"]),
            help="Engine to try; repeatable. Default: all that are installed.",
        ),
    ] = None,
    as_json: Json = False,
    **given: Any,
) -> None:
    """Check that Ramet's promises hold for a method, in short runs of a minute or two.

    The promises: the same SHA-256 in every engine, after a resume, for any order of replies and
    with many clients; a missing client does not stop a run; nothing undeclared leaves a site.
    Where two runs differ, the table says in which round, client and tensor. The exit code is 1 if
    a check fails.

    \b
    Examples:
    ramet try fedstar
    ramet try fedavg --task all --engine local
    ramet try mine.py:mine --set count=2 --engine local
    ramet try fedavg --merge momentum.py:Momentum,beta=0.3
    """
    from dataclasses import asdict, replace

    from ramet.computing import check_engine
    from ramet.studies.trial.candidate import Candidate
    from ramet.studies.trial.checks import ENGINES, try_method

    for asked in engine or ():
        check_engine(asked)
    _, chosen = setting_and_options(setting, None, options)
    given["data"] = data_folder(given["data"])
    candidate = Candidate(method=method, setting=setting, options=chosen, rounds=rounds, **given)
    candidates = [replace(candidate, task=task)]
    if task == "all":
        candidates = candidate.on_every_task()
    engines = [name for name in ENGINES if not engine or name in engine]
    reports = []
    for one in candidates:
        reports.append(try_method(one, engines, announce=_announce))
        if not as_json:
            _show(reports[-1])
    if as_json:
        tried = [asdict(report) for report in reports]
        every = {"tried": tried, "unsuited": candidate.unsuited}
        print_json(every if task == "all" else tried[0])
    elif len(reports) > 1:
        _show_unsuited(candidate.unsuited)
    if any(report.checks("failed") for report in reports):
        raise typer.Exit(1)


def _announce(check: str) -> None:
    print_status(f"checking: {check}")


def _show(report: Report) -> None:
    rows = [(one.check, _SHOWN[one.verdict], one.detail) for one in report.outcomes]
    print_list(("check", "outcome", "detail"), rows)
    _show_unsuited(report.unsuited)
    print_line(_conclusion(report))


def _show_unsuited(unsuited: Mapping[TaskName, str]) -> None:
    for reason in dict.fromkeys(unsuited.values()):
        tasks = [task for task, own in unsuited.items() if own == reason]
        print_line(f"Not tried on {', '.join(tasks)}: {reason}")


def _conclusion(report: Report) -> str:
    where = ", ".join(filter(None, (report.setting, report.options.get("predicts"))))
    failed, skipped = report.checks("failed"), report.checks("skipped")
    runs = f"in {report.rounds} rounds on {where}"
    rest = f" Not checked: {', '.join(skipped)}." if skipped else ""
    if failed:
        return f"{report.method} fails {runs}: {', '.join(failed)}.{rest}"
    return f"{report.method} keeps Ramet's promises {runs}.{rest}"
