"""README's and docs' commands, word for word.

Bash itself reads each block, with functions in place of the programs, so loops, quotes and braces
are as people type them. Of what it would start, the short commands are run, in the order of the
page and in a folder of the page's own; every other `ramet` is read by the real command line, whose
names, options and settings are checked as far as they are before a run starts. Other programs are
listed below with the reason why they are not started here. Anything else fails.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from unittest.mock import patch

import click
import pytest
import typer

import ramet.cli.main
import ramet.cli.study
from ramet.experiment import RunFolder

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "SECURITY.md",
    *sorted((ROOT / "docs").rglob("*.md")),
]

RUN = {
    "ramet --help",
    "ramet run fedstar --setting tiny",
    "ramet run fedstar --setting tiny --out first",
    "ramet run mine.py:mine --set count=2",
    "ramet run fedavg --merge momentum.py:Momentum,beta=0.3 --rounds 5",
    "ramet run sparse.py:sparse --set strength=2 --rounds 5",
    "ramet run fedstar --activation turns.py:Turns,count=1 --rounds 6",
    "ramet run mynet.py:mynet --rounds 10",
    "ramet run fedstar --setting tiny --rounds 3 --out runs/followed --track tensorboard",
    "ramet resume runs/followed --track mlflow",
    "ramet run local --setting tiny --rounds 2 --json",
    "ramet app my-app",
    "ramet guard guard",
    "ramet data check north/site.toml",
    "ramet data check south/site.toml",
    "ramet data check east/site.toml",
    "ramet run fed-gcn --site north/site.toml --site south/site.toml --site east/site.toml "
    "--rounds 5 --out together",
}
NOT_STARTED = {
    "pip": "installs from the network; tests/packaging installs",
    "python3": "makes an environment; tests/packaging does",
    ".": "enters that environment",
    "git": "fetches from the network",
    "cd": "enters what git has fetched",
    "make": "runs these tests",
    "flower-superlink": "does not end; tests/e2e starts it",
    "flower-supernode": "does not end; tests/e2e starts it",
    "flwr": "needs a SuperLink; tests/e2e has one",
    "tensorboard": "does not end; tests/tracking/test_tracking.py reads its files",
    "ssh-keygen": "is not everywhere; tests/flower/test_wire.py makes such keys",
    "sudo": "changes the machine",
    "docker": "is not here",
}
PYTHON_NOT_RUN: dict[str, str] = {}
"""Blocks that are excerpts, by their first line, and what of."""
NEEDS_FILES = "--site"
"""Settings that cannot be checked without files that the reader has."""


@dataclass(frozen=True)
class Block:
    language: str
    text: str

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]


def blocks(page: Path) -> list[Block]:
    found = re.findall(r"^```(bash|python)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL)
    return [Block(*block) for block in found]


def commands(block: Block) -> Iterator[list[str]]:
    """What bash would start for the block, in order."""
    names = ["ramet", "python", *NOT_STARTED]
    functions = "".join(
        f'function {name} {{ printf \'%s\\0\' "$(($# + 1))" {name} "$@"; }}\n' for name in names
    )
    missing = (
        'function command_not_found_handle { echo "$1: neither run nor listed" >&2; exit 97; }\n'
    )
    bash = shutil.which("bash")
    assert bash
    done = subprocess.run(
        [bash, "-e", "-c", f"{functions}{missing}PATH=/nowhere\n{block.text}"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, f"{block.text}\n{done.stderr}"
    words = iter(done.stdout.split("\0")[:-1])
    for count in words:
        yield [next(words) for _ in range(int(count))]


class _Enough(BaseException):
    """The run would start now."""


def check(words: list[str]) -> None:
    """Read a `ramet` command with the real parser; check a run's or a comparison's settings."""
    command: click.Command = typer.main.get_command(ramet.cli.main.app)
    name, rest = "", words[1:]
    while isinstance(command, click.Group):
        name, *rest = rest
        assert name in command.commands, f"there is no `{shlex.join(words)}`"
        command = command.commands[name]
    command.make_context(name, list(rest))
    checkable = words[1] in ("run", "compare") and NEEDS_FILES not in words
    if checkable:
        with pytest.raises(_Enough):
            start(words)


def start(words: list[str]) -> None:
    """As far as it goes before anything is written or trained."""
    with (
        patch.object(sys, "argv", words),
        patch.object(RunFolder, "create", side_effect=_Enough),
        patch.object(ramet.cli.study, "run_sweep", side_effect=_Enough),
    ):
        ramet.cli.main.main()


def run(words: list[str]) -> None:
    code: object = 0
    with patch.object(sys, "argv", words):
        try:
            ramet.cli.main.main()
        except SystemExit as leaving:
            code = leaving.code
    assert not code, shlex.join(words)


def run_python(block: Block) -> None:
    """A block that begins with a file's name is that file; another one is run."""
    name = re.fullmatch(r"# (\w+\.py)", block.first_line)
    if name:
        Path(name[1]).write_text(block.text)
    elif block.first_line not in PYTHON_NOT_RUN:
        exec(compile(block.text, block.first_line, "exec"), {"__name__": "__main__"})


def run_script(script: str, *arguments: str) -> None:
    """A script that the page has given is run; one of this repository's has to be there."""
    if Path(script).exists():
        subprocess.run([sys.executable, script, *arguments], check=True)
    else:
        assert (ROOT / script).is_file(), f"there is no {script}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_is_run_or_read(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    for block in blocks(page):
        if block.language == "python":
            run_python(block)
            continue
        started = list(commands(block))
        assert started, f"nothing is started by\n{block.text}"
        for words in started:
            if words[0] == "python":
                run_script(*words[1:])
            elif shlex.join(words) in RUN and not _lacks_its_site(words):
                run(words)
            elif words[0] == "ramet":
                check(words)


def _lacks_its_site(words: list[str]) -> bool:
    """README names the sites that another page makes."""
    return any(word.endswith(".toml") and not Path(word).exists() for word in words)


def test_the_lists_name_what_is_there() -> None:
    there = [block for page in PAGES for block in blocks(page)]
    started = [w for block in there if block.language == "bash" for w in commands(block)]
    assert {shlex.join(words) for words in started} >= RUN
    assert {words[0] for words in started} >= NOT_STARTED.keys()
    assert {block.first_line for block in there} >= PYTHON_NOT_RUN.keys()


def test_examples_in_help_are_read() -> None:
    """`Example: ramet …` and the lines under `Examples:` in every command's help."""
    found = [
        shlex.split(line)
        for text in _helps(typer.main.get_command(ramet.cli.main.app))
        for line in re.findall(r"^(?:Example: )?(ramet [a-z].*)$", text, re.MULTILINE)
    ]
    assert len(found) > 12
    for words in found:
        if ".py:" not in words[2]:
            check(words)


def _helps(command: click.Command) -> Iterator[str]:
    yield command.help or ""
    if isinstance(command, click.Group):
        for inner in command.commands.values():
            yield from _helps(inner)


@pytest.mark.parametrize(
    "line",
    [
        "ramet run fedstar --setings tiny",
        "ramet run fedstarr",
        "ramet run fedstar --set widht=3",
        "ramet compare local --setting nowhere",
        "ramet fly",
        "ramet run",
        "curl example.org",
    ],
)
def test_a_wrong_command_would_be_found(line: str) -> None:
    with pytest.raises((AssertionError, click.UsageError, ramet.RametError, SystemExit)):
        check(next(commands(Block("bash", line + "\n"))))
