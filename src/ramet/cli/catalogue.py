"""What there is to choose from: `ramet methods`, `activations`, `merges` and `settings`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated

import typer

from ramet.cli import completion
from ramet.cli.console import print_table, say

if TYPE_CHECKING:
    from ramet.methods import Method

app = typer.Typer()


@app.command()
def methods(
    name: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completion.method,
            help="One of them, or file.py:factory.",
            metavar="NAME",
        ),
    ] = None,
) -> None:
    """List the methods, or describe the one called NAME: its paper, its task, its options."""
    from ramet.experiment.named import method_factory
    from ramet.methods import METHODS
    from ramet.options import arguments
    from ramet.report.plain_table import list_table

    if name is None:
        rows = [(key, _idea(factory), _shares(factory())) for key, factory in METHODS.items()]
        print_table(list_table(("method", "idea", "shares"), rows))
        say("`ramet methods NAME` shows a method's paper, task and options.")
        return
    factory = method_factory(name)
    method = factory()
    say(f"{method.name}: {_idea(factory)}")
    say(f"paper: {method.paper}")
    say(f"task: {method.task.name}")
    say(f"shares: {_shares(method)}")
    say("--set:")
    for key, default in arguments(factory).items():
        say(f"  {key}={default}")


@app.command()
def activations() -> None:
    """List the rules for --activation: who is asked for what in a round."""
    from ramet.methods import ACTIVATIONS
    from ramet.report.plain_table import list_table

    rows = [(name, _idea(rule), _settable(rule)) for name, rule in ACTIVATIONS.items()]
    print_table(list_table(("activation", "rule", "options"), rows))


@app.command()
def merges() -> None:
    """List the rules for --merge: how replies are merged."""
    from ramet.methods import MERGES
    from ramet.report.plain_table import list_table

    rows = [(name, _idea(rule), _settable(rule)) for name, rule in MERGES.items()]
    print_table(list_table(("merge", "rule", "options"), rows))


@app.command()
def settings() -> None:
    """List the settings and their clients."""
    from ramet.partition import SETTINGS
    from ramet.report.plain_table import list_table

    rows = []
    for name, factory in SETTINGS.items():
        made = factory()
        named = len(set(made.source_of.values())) > 1
        clients = " ".join(made.clients) if named else f"{len(made.clients)} parts"
        rows.append((name, made.about, clients, _settable(factory)))
    print_table(list_table(("setting", "about", "clients", "--set"), rows))


def _idea(of: Callable[..., object]) -> str:
    """The first line of its docstring."""
    return (of.__doc__ or "").strip().partition("\n")[0].replace("``", "`")


def _shares(method: Method) -> str:
    return ", ".join(method.shared.patterns) or "nothing"


def _settable(factory: Callable[..., object]) -> str:
    from ramet.options import arguments

    return " ".join(f"{name}={default}" for name, default in arguments(factory).items())
