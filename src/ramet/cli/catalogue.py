"""Lists of what is available: `ramet methods`, `activations`, `merges` and `settings`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from ramet.cli import completion
from ramet.cli.console import print_line, print_table

if TYPE_CHECKING:
    from ramet.methods import Method

app = typer.Typer()


@app.command()
def methods(
    name: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completion.method,
            help="A method's name, or file.py:factory.",
            metavar="NAME",
        ),
    ] = None,
) -> None:
    """List the methods, or show the paper, task and options of NAME."""
    from ramet.experiment.named import method_factory
    from ramet.methods import METHODS
    from ramet.options import arguments
    from ramet.report.plain_table import list_table

    if name is None:
        rows = [(key, _summary(factory), _shares(factory())) for key, factory in METHODS.items()]
        print_table(list_table(("method", "summary", "shares"), rows))
        print_line("`ramet methods NAME` shows a method's paper, task and options.")
        return
    factory = method_factory(name)
    method = factory()
    print_line(f"{method.name}: {_summary(factory)}")
    print_line(f"paper: {method.paper}")
    print_line(f"task: {method.task.name}")
    print_line(f"shares: {_shares(method)}")
    print_line("--set:")
    for key, default in arguments(factory).items():
        print_line(f"  {key}={default}")


@app.command()
def activations() -> None:
    """List the rules for --activation: which clients send which parameters in a round."""
    from ramet.methods import ACTIVATIONS
    from ramet.report.plain_table import list_table

    rows = [(name, _summary(rule), _options(rule)) for name, rule in ACTIVATIONS.items()]
    print_table(list_table(("activation", "rule", "options"), rows))


@app.command()
def merges() -> None:
    """List the rules for --merge: how replies are merged."""
    from ramet.methods import MERGES
    from ramet.report.plain_table import list_table

    rows = [(name, _summary(rule), _options(rule)) for name, rule in MERGES.items()]
    print_table(list_table(("merge", "rule", "options"), rows))


@app.command()
def settings() -> None:
    """List the settings and their clients."""
    from ramet.partition import SETTINGS
    from ramet.report.plain_table import list_table

    rows = []
    for name, factory in SETTINGS.items():
        setting = factory()
        named = len(set(setting.source_of.values())) > 1
        clients = " ".join(setting.clients) if named else f"{len(setting.clients)} parts"
        rows.append((name, setting.about, clients, _options(factory)))
    print_table(list_table(("setting", "about", "clients", "--set"), rows))


def _summary(documented: Callable[..., object]) -> str:
    """The first line of the docstring."""
    return (documented.__doc__ or "").strip().partition("\n")[0].replace("``", "`")


def _shares(method: Method) -> str:
    return ", ".join(method.shared.patterns) or "nothing"


def _options(factory: Callable[..., object]) -> str:
    from ramet.options import arguments

    return " ".join(f"{name}={default}" for name, default in arguments(factory).items())
