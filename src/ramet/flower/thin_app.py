"""The Flower app, which names modules of this package and all options of a run.

It needs neither PyTorch nor pydantic, so that programs of a site can write it.
"""

from __future__ import annotations

import json
import shlex
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from types import NoneType
from typing import Any, get_args

from ramet.run_options import RUN_OPTIONS, Declared

ACCEPTED_RUN, NEW_ROWS = "accepted-run", "new-rows"
OF_THE_SERVER = {
    "keys": "folder with the nodes' public keys, on the server; empty: unsigned replies",
    "folder": "the run's folder, on the server",
    "gate": "how much worse a score may be in a run that sites use at once; any: by any; empty: no",
    ACCEPTED_RUN: "name of the run that counts, and of the sites that are told so",
    NEW_ROWS: "name of the run that counts, and of the sites that are asked for new rows",
    "from-folder": "folder of the run that this one starts from, on the server",
}
APP_DEFAULTS = {"method": "fedstar", "setting": "tiny", "engine": "superlink"}
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


def config_key(name: str) -> str:
    return name.replace("_", "-")


def flat(declared: Declared, value: Any) -> str | int | float:
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


def write_app(folder: Path) -> None:
    """Write the Flower app: a file that names modules of this package, and all options."""
    lines = [
        f"{config_key(name)} = {json.dumps(APP_DEFAULTS.get(name, flat(one, one.default)))}"
        f"  # {one.option.help}\n"
        for name, one in RUN_OPTIONS.items()
    ]
    lines += [f'{key} = ""  # {about}\n' for key, about in OF_THE_SERVER.items()]
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
