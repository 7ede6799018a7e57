"""`--help` of every command explains every argument and option."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click
import pytest
import typer
from typer.testing import CliRunner

from ramet.cli.main import app


def commands(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    for name, command in group.commands.items():
        if isinstance(command, click.Group):
            yield from commands(command, *path, name)
        else:
            yield (*path, name)


def found(path: tuple[str, ...]) -> click.Command:
    command = typer.main.get_command(app)
    for name in path:
        assert isinstance(command, click.Group)
        command = command.commands[name]
    return command


ROOT = typer.main.get_command(app)
assert isinstance(ROOT, click.Group)
COMMANDS = list(commands(ROOT))


@pytest.mark.parametrize("path", COMMANDS, ids=" ".join)
def test_help_explains_every_parameter(path: tuple[str, ...]) -> None:
    printed = CliRunner().invoke(app, [*path, "--help"], env={"COLUMNS": "300"})
    assert printed.exit_code == 0
    words = re.sub(r"[│\s]+", " ", click.unstyle(printed.output))
    command = found(path)
    assert command.help
    for parameter in command.params:
        text = getattr(parameter, "help", None)
        if parameter.name != "help":
            assert text, f"{' '.join(path)}: {parameter.name} has no help"
            assert " ".join(text.split()) in words, f"{' '.join(path)}: {parameter.name}"


def test_there_are_all_commands() -> None:
    assert {("run",), ("resume",), ("compare",), ("reproduce",), ("report",)} <= set(COMMANDS)
    assert {("data", "check"), ("audit", "show"), ("deploy", "init"), ("doctor",)} <= set(COMMANDS)
