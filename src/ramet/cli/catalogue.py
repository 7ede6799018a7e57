"""Lists of what is available: methods, networks, activations, merges, settings, protocols."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated

import typer

from ramet.cli import completion
from ramet.cli.console import print_line, print_list

if TYPE_CHECKING:
    from ramet.rules.method import Method

app = typer.Typer()
list_app = typer.Typer(
    no_args_is_help=True, help="List methods, networks, settings, tasks and rules by name."
)
app.add_typer(list_app, name="list")


@list_app.command()
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
    from ramet.experiment.named import method_factory, network_rows
    from ramet.methods import AUTHORS, METHODS, PAPER_NAMES
    from ramet.options import allow_code, arguments
    from ramet.training.local import LocalTraining

    if name is None:
        rows = [
            (key, _summary(make), _task(make()), _shares(make())) for key, make in METHODS.items()
        ]
        print_list(("method", "summary", "task", "shares"), rows)
        print_line("Names that papers give to a method with a certain network:")
        for key, paper in PAPER_NAMES.items():
            print_line(f"  {key}: {paper.method} --network {paper.network}")
        print_line("`ramet list methods NAME` shows a method's paper, task and options.")
        return
    allow_code(name)
    factory = method_factory(name)
    method = factory()
    print_line(f"{method.name}: {_summary(factory)}")
    print_line(f"paper: {method.paper}")
    if name in PAPER_NAMES:
        paper = PAPER_NAMES[name]
        print_line(f"the same as: {paper.method} --network {paper.network}")
        print_line(f"task: {', '.join(task for _, task, _, _ in network_rows(paper.network))}")
    else:
        print_line(f"task: {_task(method)}")
    print_line(f"shares: {_shares(method)}")
    if method.extras:
        rule = method.extras.rule
        print_line(f"extras: {_summary(type(rule)) if rule else 'sent to the server only'}")
    for stage in method.stages:
        print_line(f"stage: {stage.name}")
    for release in method.release:
        print_line(f"release: {_summary(type(release))}")
    if method.pace:
        print_line(f"pace: {_summary(type(method.pace))}")
    print_line("--set:")
    for key, default in arguments(factory).items():
        print_line(f"  {key}={default}")
    if name in AUTHORS:
        print_line(f"  protocol=ramet, or authors: see `ramet list protocols {name}`")
    if method.model is None:
        print_line("  the options of the network: `ramet list networks`")
    if method.training is None:
        print_line(
            f"  {', '.join(arguments(LocalTraining))}: training; defaults depend on the task"
        )


@list_app.command()
def protocols(
    name: Annotated[
        str | None,
        typer.Argument(autocompletion=completion.method, help="A method's name.", metavar="METHOD"),
    ] = None,
) -> None:
    """Show what --set protocol=authors sets: where authors' programs differ from our defaults.

    Each option can also be set on its own, and options that are given come before the protocol.

    Example: ramet list protocols fedda
    """
    from ramet.papers.deviations import deviations, methods_of_papers, not_followed

    for methods in methods_of_papers() if name is None else [(name,)]:
        rows = deviations(*methods)
        print_line(f"{', '.join(methods)}:")
        print_list(("--set", "ours", "authors'", "where they say it"), rows)
        for one in not_followed(methods[0]):
            print_line(f"Not followed: {one}")


@list_app.command()
def networks(
    name: Annotated[
        str | None,
        typer.Argument(autocompletion=completion.network, help="A network's name.", metavar="NAME"),
    ] = None,
) -> None:
    """List the networks for --network by task, or show the options of NAME."""
    from ramet.experiment.named import network_rows

    rows = network_rows(name)
    print_list(("network", "task", "summary", "--set"), rows)
    print_line("* is the default of the task. A network of your own is file.py:NETWORK.")


@list_app.command()
def activations() -> None:
    """List the rules for --activation: which clients send which parameters in a round."""
    from ramet.methods import ACTIVATIONS

    _list_rules(("activation", "rule"), ACTIVATIONS)


@list_app.command()
def releases() -> None:
    """List what --release can do to a reply before it leaves a site."""
    from ramet.methods import RELEASES

    _list_rules(("release", "what it does"), RELEASES)


@list_app.command()
def merges() -> None:
    """List the rules for --merge: how replies are merged."""
    from ramet.methods import MERGES, SUMMATIONS

    _list_rules(("merge", "rule"), {**MERGES, **SUMMATIONS})


def _list_rules(heads: tuple[str, str], rules: Mapping[str, Callable[..., object]]) -> None:
    rows = [(name, _summary(rule), _options(rule)) for name, rule in rules.items()]
    print_list((*heads, "options"), rows)


@list_app.command()
def settings() -> None:
    """List the settings and their clients."""
    from ramet.partition import SETTINGS

    rows = []
    for name, factory in SETTINGS.items():
        setting = factory()
        named = len(set(setting.source_of.values())) > 1
        clients = " ".join(setting.clients) if named else f"{len(setting.clients)} parts"
        rows.append((name, setting.about, clients, _options(factory)))
    print_list(("setting", "about", "clients", "--set"), rows)


@list_app.command()
def tasks() -> None:
    """List the tasks for --task, with their metrics; the first is the default."""
    from ramet.tasks import TASK_METRICS, TASKS

    rows = [
        (name, ", ".join(metrics), _options(TASKS[name])) for name, metrics in TASK_METRICS.items()
    ]
    print_list(("task", "--metric", "--set"), rows)


def _summary(documented: Callable[..., object]) -> str:
    """The first line of the docstring."""
    return (documented.__doc__ or "").strip().partition("\n")[0].replace("``", "`")


def _task(method: Method) -> str:
    return method.task.name if method.task else "any"


def _shares(method: Method) -> str:
    """Patterns, or the summary of the rule that finds them."""
    from ramet.payload import Sharing, nothing

    if isinstance(method.shared, Sharing):
        shared = str(method.shared)
    else:
        shared = _summary(type(method.shared)).removeprefix("Share ").removesuffix(".")
    extras = "extras" if method.extras else "extras of a stage" if method.stages else ""
    if not extras:
        return shared
    return f"{shared}, and {extras}" if method.shared != nothing else f"{extras} only"


def _options(factory: Callable[..., object]) -> str:
    from ramet.options import arguments

    return " ".join(f"{name}={default}" for name, default in arguments(factory).items())
