"""Options and arguments shared by several commands, and their parsing."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from ramet.cli import completion
from ramet.errors import RametError
from ramet.run_options import OPTIONS, Function

DEFAULT_SETTING, OWN = "tiny", "own"


def option(name: str) -> Any:
    """An option of a run, as it is declared."""
    declared = OPTIONS[name]
    return typer.Option(
        declared.flag,
        metavar=declared.option.metavar,
        autocompletion=getattr(completion, name, None),
        help=declared.option.help,
        show_default=declared.option.shown_default or True,
        rich_help_panel=declared.option.panel,
    )


def run_options(*names: str) -> Callable[[Function], Function]:
    """Add options of a run to a command, which gets them as its last argument, ``**given``.

    Those that it declares itself are not added.
    """

    def decorate(command: Function) -> Function:
        hints = get_type_hints(command, include_extras=True)
        *own, _ = signature(command).parameters.values()
        parameters = [parameter.replace(annotation=hints[parameter.name]) for parameter in own]
        for name in (name for name in names if name not in hints):
            declared = OPTIONS[name]
            type_ = list[str] | None if declared.is_repeatable else declared.type
            added = Parameter(name, Parameter.POSITIONAL_OR_KEYWORD, default=declared.default)
            parameters.append(added.replace(annotation=Annotated[type_, option(name)]))
        command.__signature__ = Signature(parameters)  # type: ignore[attr-defined]
        return command

    return decorate


Setting = Annotated[str | None, option("setting")]
Data = Annotated[Path | None, option("data")]
Options = Annotated[list[str] | None, option("options")]
Rounds = Annotated[int | None, option("rounds")]
Track = Annotated[list[str] | None, option("track")]
Method = Annotated[
    str,
    typer.Argument(
        autocompletion=completion.method, help="Name from `ramet list methods`, or file.py:factory."
    ),
]
Sites = Annotated[
    list[Path] | None,
    typer.Option(
        "--site",
        metavar="FILE",
        help="TOML file that describes one site's data; repeatable.",
        rich_help_panel=OPTIONS["data"].option.panel,
    ),
]
Best = Annotated[
    bool,
    typer.Option(
        "--best",
        help="Use the models of the round with the best mean validation score, not the last one's.",
    ),
]
Model = Annotated[
    Path, typer.Argument(metavar="RUN", help="Folder of a finished run, or a site's own folder.")
]
NewSite = Annotated[
    Path | None,
    typer.Option(
        "--site",
        metavar="FILE",
        help="TOML file that describes new data with a whole graph; default: the data of training.",
    ),
]
New = Annotated[
    Path | None,
    typer.Option(
        "--new",
        metavar="FOLDER",
        help="Folder with tables of new rows and links, which continue the graph of training.",
    ),
]
Context = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="TOML file of the graph that --new continues, if it is not that of training.",
    ),
]
RunOut = Annotated[
    Path | None, typer.Option("--out", help="Run folder. Default: a new one in runs/.")
]
Seeds = Annotated[str, typer.Option(help="Seeds, as a range (1-5) or a list (1,2,3).")]
Jobs = Annotated[
    int, typer.Option(min=1, help="Number of parallel runs, which share the cores among them.")
]
Target = Annotated[
    float | None, typer.Option(help="Also show the rounds needed to reach this test score, in %.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
PartyFolder = Annotated[
    Path,
    typer.Argument(
        metavar="[FOLDER]",
        help="Folder created by `ramet deploy init` or `join`. Default: the current folder.",
    ),
]


def setting_and_options(
    name: str | None, sites: list[Path] | None, given: list[str] | None
) -> tuple[str, dict[str, str]]:
    """Return the name of the setting, which is `own` with ``--site``, and all options."""
    options = key_values(given or [], "--set", "lr=0.01")
    if not sites:
        return name or DEFAULT_SETTING, options
    if name not in (None, OWN):
        raise RametError(f"--site and --setting {name} exclude each other. Leave out one of them.")
    return OWN, {**options, "sites": shlex.join(map(str, sites))}


def key_values(given: list[str], flag: str, example: str) -> dict[str, str]:
    """Parse the KEY=VALUE arguments of a repeatable option."""
    pairs = [option.partition("=") for option in given]
    for key, equals, _ in pairs:
        if not key or not equals:
            raise RametError(f"{flag} expects KEY=VALUE, not '{key}'. Example: {flag} {example}.")
    return {key.replace("-", "_"): value for key, _, value in pairs}


def data_folder(given: Path | None) -> Path:
    if given is None:
        from ramet.experiment import default_data

        given = default_data()
    return given.absolute()
