"""Options and arguments shared by several commands, and their parsing."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated, Literal

import typer

from ramet.cli import completion
from ramet.errors import RametError

DEFAULT_SETTING, OWN = "tiny", "own"

Setting = Annotated[
    str | None,
    typer.Option(
        autocompletion=completion.setting,
        help="A name from `ramet settings`.",
        show_default=DEFAULT_SETTING,
    ),
]
Sites = Annotated[
    list[Path] | None,
    typer.Option(
        "--site", metavar="FILE", help="TOML file that describes one site's data; repeatable."
    ),
]
Options = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Option of the method, the network, the training or the setting; repeatable.",
    ),
]
Network = Annotated[
    str | None,
    typer.Option(
        "--network",
        metavar="NAME",
        autocompletion=completion.network,
        help="Network of a method that brings none: a name from `ramet networks`, or "
        "file.py:network. Default: depends on the task.",
    ),
]
Activation = Annotated[
    str | None,
    typer.Option(
        "--activation",
        metavar="NAME[,KEY=VALUE]",
        autocompletion=completion.activation,
        help="Rule for which clients send which parameters, instead of the method's own: a name "
        "from `ramet activations`, or file.py:rule.",
    ),
]
Merge = Annotated[
    str | None,
    typer.Option(
        "--merge",
        metavar="NAME[,KEY=VALUE]",
        autocompletion=completion.merge,
        help="Rule for merging replies, instead of the weighted mean: a name from `ramet merges`, "
        "or file.py:rule.",
    ),
]
Release = Annotated[
    str | None,
    typer.Option(
        "--release",
        metavar="NAME[,KEY=VALUE]",
        autocompletion=completion.release,
        help="What happens to a reply before it leaves a site, such as compression: a name from "
        "`ramet releases`, or file.py:release.",
    ),
]
Metric = Annotated[
    str | None,
    typer.Option(
        "--metric",
        metavar="NAME",
        autocompletion=completion.metric,
        help="Metric of validation and test, by which rounds are chosen: accuracy, "
        "balanced-accuracy, macro-f1, roc-auc or average-precision; for links ROC-AUC or mrr.",
    ),
]
Secure = Annotated[
    bool,
    typer.Option(
        "--secure", help="Let the server learn sums of replies only, by secure summation."
    ),
]
Dp = Annotated[
    str | None,
    typer.Option(
        "--dp",
        metavar="BUDGET",
        help="Train with differential privacy: unit=graph|site|link,epsilon=…,delta=…[,clip=…].",
    ),
]
Rounds = Annotated[
    int | None, typer.Option(help="Number of rounds. Default: depends on the setting.")
]
Patience = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Stop after N rounds without a better mean validation score. Default: never.",
    ),
]
FinalClients = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Send the final model to N clients, drawn at random, which evaluate it; the others "
        "get it when it is asked for. Default: all clients.",
    ),
]
Regions = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Let N regional coordinators ask the clients and pass on sums; the numbers are the "
        "same. Default: none.",
    ),
]
Best = Annotated[
    bool,
    typer.Option(
        "--best",
        help="Use the models of the round with the best mean validation score, not the last one's.",
    ),
]
SplitSeed = Annotated[
    int,
    typer.Option(
        min=0,
        help="Seed of the train/validation/test split and, in settings that divide one dataset "
        "among clients, of the partition.",
    ),
]
Engine = Annotated[
    Literal["local", "ray", "superlink"],
    typer.Option(
        help="local: this process; ray: Flower's simulation; superlink: a real SuperLink on "
        "loopback."
    ),
]
Device = Annotated[
    Literal["cpu", "cuda", "mps"],
    typer.Option(help="Device that clients compute on; only cpu has ever been run."),
]
Track = Annotated[
    list[str] | None,
    typer.Option(
        "--track",
        metavar="NAME",
        autocompletion=completion.tracker,
        help="Log the rounds to tensorboard, mlflow or wandb; repeatable.",
    ),
]
Data = Annotated[
    Path | None,
    typer.Option(help="Folder with the datasets. Default: $RAMET_DATA or ~/.cache/ramet."),
]
RunOut = Annotated[
    Path | None, typer.Option("--out", help="Run folder. Default: a new one in runs/.")
]
Seeds = Annotated[str, typer.Option(help="Seeds, as a range (1-5) or a list (1,2,3).")]
Jobs = Annotated[
    int, typer.Option(min=1, help="Number of parallel runs, which share the cores among them.")
]
Workers = Annotated[
    int | None,
    typer.Option(
        min=1,
        metavar="N",
        help="Processes that clients are computed in, with --engine local; the numbers are the "
        "same. Default: one, and in long runs one per core.",
    ),
]
RayAddress = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        help="Running Ray cluster that computes the clients, with --engine ray; its machines share "
        "the folders of run and data. Default: Ray is started on this machine.",
    ),
]
Target = Annotated[
    float | None, typer.Option(help="Also show the rounds needed to reach this test score, in %.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]
Side = Annotated[
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
