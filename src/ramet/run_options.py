"""The options of a run, each declared once.

The command line, the keywords of `ramet.run`, the settings that are stored, Flower's run config and
the table in the docs are all made from the fields of `RunOptions` and `Computing`. A new option is
a field here, and the code that uses it. No heavy package is imported, so that `--help` is fast.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, fields
from functools import partial
from inspect import Parameter, signature
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from annotated_types import Ge, Gt

SPLIT_SEED = 123
"""The seed of the split if none is given."""
Engine = Literal["local", "ray", "superlink"]
Device = Literal["cpu", "cuda", "mps"]
Function = TypeVar("Function", bound=Callable[..., Any])


@dataclass(frozen=True)
class Option:
    """How users meet an option."""

    panel: str
    """Its part of `--help` and of the table in the docs."""
    help: str
    metavar: str | None = None
    flag: str | None = None
    """If it is not the name with hyphens; empty for a field that users do not choose."""
    shown_default: str | None = None
    """If the default is not a value that users could give."""
    is_code: bool = False
    """Whether it may name a file with user-defined code."""
    concerns_clients: bool = True
    """Whether it decides what a client sends, so that all members of a secure sum agree on it."""


_method, _data = partial(Option, "Method"), partial(Option, "Data")
_training, _protection = partial(Option, "Training"), partial(Option, "Protection")
_server = partial(Option, "Server", concerns_clients=False)
_computing = partial(Option, "Computing", concerns_clients=False)


class RunOptions:
    """Everything that decides a run's numbers, and the folder of its datasets.

    Those without a default are filled in before a run starts. The order is that of a run's command.
    """

    method: Annotated[
        str,
        _method("A name from `ramet list methods`, or file.py:factory.", flag="", is_code=True),
    ]
    setting: Annotated[
        str,
        _data(
            "A name from `ramet list settings`, or file.py:setting.",
            shown_default="tiny",
            is_code=True,
        ),
    ]
    network: Annotated[
        str | None,
        _method(
            "Network of a method that brings none: a name from `ramet list networks`, or "
            "file.py:network. Default: depends on the task.",
            "NAME",
            is_code=True,
        ),
    ] = None
    task: Annotated[
        str | None,
        _data(
            "What is predicted: a name such as node-regression, or file.py:task. Default: that of "
            "the setting.",
            "NAME",
            is_code=True,
        ),
    ] = None
    rounds: Annotated[int, Ge(1), _training("Number of rounds. Default: depends on the setting.")]
    seed: Annotated[int, Ge(0), _training("Seed of weights, dropout and batch order.")] = 0
    patience: Annotated[
        int | None,
        Ge(1),
        _server("Stop after N rounds without a better mean validation score. Default: never.", "N"),
    ] = None
    metric: Annotated[
        str | None,
        _training(
            "Metric of validation and test, by which rounds are chosen: accuracy, "
            "balanced-accuracy, macro-f1, roc-auc or average-precision; for numbers mae, rmse or "
            "r2; for links ROC-AUC or mrr; or file.py:metric.",
            "NAME",
            is_code=True,
        ),
    ] = None
    engine: Annotated[
        Engine,
        _computing(
            "local: this process; ray: Flower's simulation; superlink: a real SuperLink on "
            "loopback."
        ),
    ] = "local"
    device: Annotated[
        Device, _computing("Device that clients compute on; only cpu has ever been run.")
    ] = "cpu"
    threads: Annotated[int, Ge(1), _computing("PyTorch threads per client.")] = 1
    quorum: Annotated[
        int, Ge(1), _server("Minimum number of valid replies for a round to count.")
    ] = 1
    deadline: Annotated[
        float,
        Gt(0),
        _server("Seconds without a reply after which a round continues without the missing nodes."),
    ] = 600.0
    norm_bound: Annotated[
        float | None,
        Gt(0),
        _server("Refuse replies further than this (L2) from what was sent. Default: no bound."),
    ] = None
    split_seed: Annotated[
        int,
        Ge(0),
        _data(
            "Seed of the train/validation/test split and, in settings that divide one dataset "
            "among clients, of the partition."
        ),
    ] = SPLIT_SEED
    final_clients: Annotated[
        int | None,
        Ge(1),
        _server(
            "Send the final model to N clients, drawn at random, which evaluate it; the others "
            "get it when it is asked for. Default: all clients.",
            "N",
        ),
    ] = None
    regions: Annotated[
        int | None,
        Ge(1),
        _server(
            "Let N regional coordinators ask the clients and pass on sums; the numbers are the "
            "same. Default: none.",
            "N",
        ),
    ] = None
    start_from: Annotated[
        str | None,
        _method("Start with the models of the finished run in this folder.", "RUN", flag="--from"),
    ] = None
    """The folder and the SHA-256 of the run whose models this one starts with: `name@sha256`."""
    options: Annotated[
        dict[str, str],
        _method(
            "Option of the method, the network, the training or the setting; repeatable.",
            "KEY=VALUE",
            flag="--set",
        ),
    ] = {}  # noqa: RUF012 - pydantic copies it
    share: Annotated[
        tuple[str, ...] | None,
        _method(
            "Share the matching parameters instead of the method's choice; '' shares nothing; "
            "repeatable.",
            "PATTERN",
        ),
    ] = None
    activation: Annotated[
        str | None,
        _method(
            "Rule for which clients send which parameters, instead of the method's own: a name "
            "from `ramet list activations`, or file.py:rule.",
            "NAME[,KEY=VALUE]",
            is_code=True,
        ),
    ] = None
    merge: Annotated[
        str | None,
        _method(
            "Rule for merging replies, instead of the weighted mean: a name from `ramet list "
            "merges`, or file.py:rule.",
            "NAME[,KEY=VALUE]",
            is_code=True,
        ),
    ] = None
    release: Annotated[
        str | None,
        _method(
            "What happens to a reply before it leaves a site, such as compression: a name from "
            "`ramet list releases`, or file.py:release.",
            "NAME[,KEY=VALUE]",
            is_code=True,
        ),
    ] = None
    secure: Annotated[
        bool,
        _protection(
            "Let the server learn sums of replies only, by secure summation.",
            concerns_clients=False,
        ),
    ] = False
    verified: Annotated[
        bool,
        _protection(
            "Let sites sign a charter of the run, and check each step of the server by repeating "
            "it.",
        ),
    ] = False
    dp: Annotated[
        str | None,
        _protection(
            "Train with differential privacy: unit=graph|site|link,epsilon=…,delta=…[,clip=…]; "
            "with unit=site and --secure also [,survivors=…][,colluders=…].",
            "BUDGET",
        ),
    ] = None
    data: Annotated[
        Path,
        _data(
            "Folder with the datasets. Default: $RAMET_DATA or ~/.cache/ramet.",
            concerns_clients=False,
        ),
    ]
    code: Annotated[
        str | None,
        _method("SHA-256 of the user-defined method, network and rules.", flag=""),
    ] = None


@dataclass(frozen=True)
class Computing:
    """How a run is computed and followed, which does not change its numbers."""

    workers: Annotated[
        int | None,
        Ge(1),
        _computing(
            "Processes that clients are computed in, with --engine local; the numbers are the "
            "same. Default: one, and in long runs one per core.",
            "N",
        ),
    ] = None
    ray_address: Annotated[
        str | None,
        _computing(
            "Running Ray cluster that computes the clients, with --engine ray; its machines share "
            "the folders of run and data. Default: Ray is started on this machine.",
            "HOST:PORT",
        ),
    ] = None
    track: Annotated[
        tuple[str, ...],
        _computing("Log the rounds to tensorboard, mlflow or wandb; repeatable.", "NAME"),
    ] = ()
    cores: int | None = None
    """Limits the default number of workers."""

    @staticmethod
    def taken_from(given: dict[str, Any]) -> Computing:
        """Remove these options from all that are given."""
        own = {one.name: given.pop(one.name) for one in fields(Computing) if one.name in given}
        return Computing(**{**own, "track": tuple(own.get("track") or ())})


DEFAULT_COMPUTING = Computing()


@dataclass(frozen=True)
class Declared:
    """An option with its name, type and default; without a default, None stands for none given."""

    name: str
    type: Any
    default: Any
    option: Option

    @property
    def flag(self) -> str:
        """As on the command line; empty if users do not choose it there."""
        flag = self.option.flag
        return f"--{self.name.replace('_', '-')}" if flag is None else flag

    @property
    def in_command(self) -> bool:
        """Whether a run's command has it: folders of data differ between machines."""
        return bool(self.flag) and self.type != Path | None

    @property
    def is_repeatable(self) -> bool:
        return any(get_origin(type_) is tuple for type_ in (self.type, *get_args(self.type)))

    @property
    def shown_default(self) -> str:
        """The default in a table; empty if there is none, or its description has it."""
        value = self.option.shown_default or self.default
        return "" if value in (None, (), {}) or value is False else str(value)


def _declared(owner: type) -> Iterator[tuple[str, Declared]]:
    for name, hint in get_type_hints(owner, include_extras=True).items():
        type_, *metadata = get_args(hint) if hasattr(hint, "__metadata__") else (hint,)
        known = {type(one): one for one in metadata}
        if option := known.get(Option):
            if not hasattr(owner, name):
                type_ = type_ | None
            yield name, Declared(name, type_, getattr(owner, name, None), option)


RUN_OPTIONS = dict(_declared(RunOptions))
COMPUTING = dict(_declared(Computing))
OPTIONS = {**RUN_OPTIONS, **COMPUTING}
CODE = tuple(name for name, one in RUN_OPTIONS.items() if one.option.is_code)
"""The options that may name user-defined code."""
_OWN = {"method", "setting", "options", "start_from"}
"""The options that commands and functions declare themselves."""
KEYWORDS = tuple(name for name, one in OPTIONS.items() if one.flag and name not in _OWN)
"""All others, which are passed on as they are."""
STUDY_KEYWORDS = tuple(name for name in KEYWORDS if name not in ("seed", "ray_address"))
"""The options of the runs of a comparison or a search, which has seeds of its own."""


def with_keywords(*names: str) -> Callable[[Function], Function]:
    """Show options of a run among a function's keywords, and explain them in its docstring.

    The function takes them as part of its last argument, as in ``**options``. Its docstring ends
    with a list of its own arguments.
    """

    def decorate(function: Function) -> Function:
        own = signature(function)
        *parameters, rest = own.parameters.values()
        added = [
            Parameter(name, Parameter.KEYWORD_ONLY, default=one.default, annotation=one.type)
            for name, one in OPTIONS.items()
            if name in names
        ]
        shown = own.replace(parameters=[*parameters, *added, rest])
        function.__signature__ = shown  # type: ignore[attr-defined]
        lines = (f"        {name}: {OPTIONS[name].option.help}" for name in names)
        function.__doc__ = "\n".join([(function.__doc__ or "").rstrip(), *lines, ""])
        return function

    return decorate
