"""The names that users import and the options that they type change on purpose only.

`python tests/test_public_api.py` writes the file, after a change that the changelog tells.
"""

from __future__ import annotations

import inspect
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from typer.main import get_command

import ramet
from ramet.cli.main import app

FILE = Path(__file__).with_suffix(".json")


def public_api() -> dict[str, Any]:
    names = sorted(ramet.__all__)
    commands = {name: [*options] for name, options in _commands(get_command(app))}
    return {"names": {name: _parameters(getattr(ramet, name)) for name in names}} | {
        "commands": commands
    }


def _parameters(given: Any) -> list[str]:
    if not str(getattr(given, "__module__", "")).startswith("ramet") or not callable(given):
        return []
    try:
        return [*inspect.signature(given).parameters]
    except ValueError:  # a class without a signature of its own
        return []


def _commands(group: Any, *names: str) -> Iterator[tuple[str, Iterator[str]]]:
    for name, one in sorted(group.commands.items()):
        if hasattr(one, "commands"):
            yield from _commands(one, *names, name)
        else:
            yield (
                " ".join([*names, name]),
                (max(option.opts, key=len) for option in one.params),
            )


def test_names_and_options_change_on_purpose_only() -> None:
    assert public_api() == json.loads(FILE.read_text())


if __name__ == "__main__":
    FILE.write_text(json.dumps(public_api(), indent=1) + "\n")
