"""Flower's run config, which is flat: all options of a run, and what the server app needs.

Each option has the name of its flag. An empty text or 0 stands for an option that is not given.
"""

from __future__ import annotations

import json
import shlex
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType
from typing import Any, get_args

from ramet.experiment import Experiment, RunSettings, checked_settings
from ramet.run_options import RUN_OPTIONS, Declared

_OF_THE_SERVER = {
    "keys": "folder with the nodes' public keys, on the server; empty: unsigned replies",
    "folder": "the run's folder, on the server",
}
_APP_DEFAULTS = {"method": "fedstar", "setting": "tiny", "engine": "superlink"}
_APP = """\
# Ramet's Flower app. It has no code of its own and names the installed modules to run.
# flwr run . NAME --run-config 'method="fedstar" setting="tiny" rounds=5'

[project]
name = "ramet-app"
version = "0.1.0"
description = "Federated learning on graphs with Ramet"
license = "Apache-2.0"
dependencies = []

[tool.flwr.app]
publisher = "ramet"

[tool.flwr.app.components]
serverapp = "ramet.flower.server_app:app"
clientapp = "ramet.flower.client_app:app"

[tool.flwr.app.config]
"""


def to_run_config(settings: RunSettings, folder: Path) -> dict[str, str | int | float]:
    """Convert settings to the app's run config; values with spaces are quoted as in a shell.

    Over a SuperLink, the paths of sites' files are left out.
    """
    if settings.engine == "superlink":
        settings = Experiment(settings).public_settings()
    options = {_key(name): _flat(one, getattr(settings, name)) for name, one in RUN_OPTIONS.items()}
    return {**options, "folder": str(folder)}


def from_run_config(config: Mapping[str, Any]) -> RunSettings:
    given = {
        key.replace("-", "_"): value for key, value in config.items() if key not in _OF_THE_SERVER
    }
    for name, one in RUN_OPTIONS.items():
        if name in given:
            given[name] = _parsed(one, given[name])
    return checked_settings(**given)


def _key(name: str) -> str:
    return name.replace("_", "-")


def _flat(declared: Declared, value: Any) -> str | int | float:
    """A value that a run config can hold."""
    if declared.type == dict[str, str]:
        return shlex.join(f"{key}={text}" for key, text in value.items())
    if declared.is_repeatable:
        return "" if value is None else shlex.join(value or ("",))
    if value is None:
        kind = next(type_ for type_ in get_args(declared.type) if type_ is not NoneType)
        return kind() if kind in (int, float) else ""
    plain: str | int | float = str(value) if isinstance(value, Path) else value
    return plain


def _parsed(declared: Declared, value: Any) -> Any:
    """The value of an option; None if it is not given."""
    if declared.type == dict[str, str]:
        return dict(pair.split("=", 1) for pair in shlex.split(value))
    if declared.is_repeatable:
        return tuple(shlex.split(value)) or None
    is_optional = declared.default is None and declared.name not in _APP_DEFAULTS
    return (value or None) if is_optional else value


def write_app(folder: Path) -> None:
    """Write the Flower app: a file that names modules of this package, and all options."""
    lines = [
        f"{_key(name)} = {json.dumps(_APP_DEFAULTS.get(name, _flat(one, one.default)))}"
        f"  # {one.option.help}\n"
        for name, one in RUN_OPTIONS.items()
    ]
    lines += [f'{key} = ""  # {about}\n' for key, about in _OF_THE_SERVER.items()]
    (folder / "pyproject.toml").write_text(_APP + "".join(lines))


_APP_NAME = "ramet-app"
"""Flower accepts letters, digits and hyphens only."""


def thin_app() -> Path:
    """A folder with the Flower app, which this process removes when it ends."""
    return Path(_app_folder().name) / _APP_NAME


@cache
def _app_folder() -> TemporaryDirectory[str]:
    folder = TemporaryDirectory(prefix="ramet-")
    app = Path(folder.name) / _APP_NAME
    app.mkdir()
    write_app(app)
    return folder
