"""Tests the commands of README and docs, word for word.

Bash itself runs each block, with functions in place of the programs, so that loops, quotes and
braces work as typed. Of the resulting commands, short ones are run, in the order of the page and in
a folder per page. Every other `ramet` command is parsed by the real command line, which checks
names, options and settings up to the point where a run would start. Other programs are listed below
with the reason why they are not run here. Anything else fails.
"""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from unittest.mock import patch

import click
import pytest
import typer

import ramet.cli.compare
import ramet.cli.main
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
    "ramet run docs/examples/centre.py:centre --set strength=0.2 --rounds 5",
    "ramet run docs/examples/smooth.py:smooth --set decay=0.8 --rounds 5",
    "ramet run docs/examples/rare.py:rare --setting planted --rounds 5",
    "ramet run fedavg --release docs/examples/half.py:Half --rounds 5",
    "ramet run fedstar --activation docs/examples/turns.py:Turns,count=1 --rounds 6",
    "ramet run mynet.py:mynet --rounds 10",
    "ramet data inspect --setting shops.py:Shops",
    "ramet run fedavg --task sizes.py:Sizes --rounds 5 --out sizes",
    "ramet run fedavg --task sizes.py:Sizes --metric sizes.py:within --rounds 5 --out within",
    "ramet run fedavg --setting shops.py:Shops --set customers=60 --rounds 5",
    "ramet run fedstar --setting tiny --rounds 3 --out runs/followed --track tensorboard",
    "ramet resume runs/followed --track mlflow",
    "ramet run local --setting tiny --rounds 2 --json",
    "ramet run fedavg --setting planted --rounds 5 --out runs/planted",
    "ramet evaluate runs/planted --best",
    "ramet run fedstar --setting tiny --rounds 5 --out audited",
    "ramet leak audited --references 2 --canaries 0 --bar membership=0.7",
    "ramet resume runs/planted --rounds 8",
    "ramet tune fedavg fedprox --setting tiny --rounds 5 --trials 2 --out tuned",
    "ramet app my-app",
    "ramet guard guard",
    "ramet data check north/site.toml",
    "ramet data check south/site.toml",
    "ramet data check east/site.toml",
    "ramet run fedavg --site north/site.toml --site south/site.toml --site east/site.toml "
    "--rounds 5 --out together",
    "ramet run fedavg --network sage --site north/site.toml --site south/site.toml --rounds 30 "
    "--out clinics",
    "ramet predict clinics --site june/site.toml --out june.csv",
    "ramet predict clinics --new july --client north --out july.csv",
    "ramet evaluate clinics --new july --client north",
    "ramet data drift north/until-march/site.toml --new north/june --figure drift.png",
    "ramet explain clinics --site june/site.toml --id p0 --top 5 --out p0.png",
}
NOT_STARTED = {
    "pip": "uses the network; tests/packaging installs the package",
    "python3": "creates an environment; tests/packaging does",
    ".": "activates that environment",
    "git": "uses the network",
    "cd": "enters the cloned repository",
    "make": "runs these tests",
    "flower-superlink": "does not end; tests/e2e starts it",
    "flower-supernode": "does not end; tests/e2e starts it",
    "flwr": "needs a SuperLink; tests/e2e has one",
    "tensorboard": "does not end; tests/tracking reads its files",
    "ssh-keygen": "may not be installed; tests/flower/test_wire.py generates such keys",
    "sudo": "modifies the machine",
    "docker": "is not available",
    "ray": "does not end; tests/e2e/test_ray_cluster.py starts it",
    "helm": "needs a cluster; tests/deploy/test_helm_chart.py renders the chart",
    "kubectl": "needs a cluster",
    **dict.fromkeys(
        ("cp", "logrotate", "mkdir", "mv", "rm", "sqlite3", "tar"),
        "changes files of a consortium; tests/e2e/test_operations.py has one",
    ),
    "sha256sum": "needs the files of `make bundle`",
}
PYTHON_NOT_RUN = {
    "def fedstar(...) -> Method:": "an excerpt of methods/fedstar.py",
    "for plan in schedule.remaining(state.step, history):": "the loop of engine/server/rounds.py",
    "from nilearn.datasets import fetch_abide_pcp  # pip install nilearn": "uses the network",
    "from predict import classes, load, probabilities": "in the folder of an exported model; "
    "tests/export/test_card.py runs it",
}
"""Blocks that are excerpts, by their first line, and where they are from."""
NEEDS_MORE = {"--site", "cuda"}
"""Commands with these words need the reader's files or a GPU, so their settings are not checked."""


@dataclass(frozen=True)
class Block:
    language: str
    text: str

    @property
    def first_line(self) -> str:
        return self.text.partition("\n")[0]


def blocks(page: Path) -> list[Block]:
    matches = re.findall(
        r"^```(bash|python)\n(.*?)^```$", page.read_text(), re.MULTILINE | re.DOTALL
    )
    return [Block(*match) for match in matches]


def commands(block: Block) -> Iterator[list[str]]:
    """The commands that bash would run for a block, in order."""
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


class _RunStartsError(BaseException):
    """Raised where the run would start."""


@cache
def command_line() -> click.Command:
    """The command line, built once."""
    return typer.main.get_command(ramet.cli.main.app)


def check(words: list[str]) -> None:
    """Parse a `ramet` command; for a run or a comparison, also check its settings."""
    command = command_line()
    name, rest = "", words[1:]
    while isinstance(command, click.Group):
        name, *rest = rest
        assert name in command.commands, f"there is no `{shlex.join(words)}`"
        command = command.commands[name]
    command.make_context(name, list(rest))
    checkable = words[1] in ("run", "compare") and NEEDS_MORE.isdisjoint(words)
    if checkable:
        with pytest.raises(_RunStartsError):
            start_only(words)


def start_only(words: list[str]) -> None:
    """Execute a command up to the point where anything would be written or trained."""
    with (
        patch.object(sys, "argv", words),
        patch.object(RunFolder, "create", side_effect=_RunStartsError),
        patch.object(ramet.cli.compare, "run_sweep", side_effect=_RunStartsError),
    ):
        ramet.cli.main.main()


def run(words: list[str]) -> None:
    code: object = 0
    with patch.object(sys, "argv", words):
        try:
            ramet.cli.main.main()
        except SystemExit as stop:
            code = stop.code
    assert not code, shlex.join(words)


def run_python(block: Block) -> None:
    """Save a block that starts with a file name under that name; run any other block."""
    name = re.fullmatch(r"# (\w+\.py)", block.first_line)
    if name:
        Path(name[1]).write_text(block.text)
    elif block.first_line not in PYTHON_NOT_RUN:
        exec(compile(block.text, block.first_line, "exec"), {"__name__": "__main__"})


def run_script(script: str, *arguments: str) -> None:
    """Run a script that the page contains, or an example; others only have to exist."""
    if Path(script).exists():
        subprocess.run([sys.executable, script, *arguments], check=True)
    else:
        assert (ROOT / script).is_file(), f"there is no {script}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_command_is_run_or_parsed(
    page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    Path("docs").mkdir()
    Path("docs/examples").symlink_to(ROOT / "docs" / "examples")
    for block in blocks(page):
        if block.language == "python":
            run_python(block)
            continue
        started = list(commands(block))
        assert started, f"no command in\n{block.text}"
        for words in started:
            if words[0] == "python":
                run_script(*words[1:])
            elif shlex.join(words) in RUN and not _lacks_site_files(words):
                run(words)
            elif words[0] == "ramet":
                check(words)


def _lacks_site_files(words: list[str]) -> bool:
    """README refers to the sites that another page creates."""
    return any(word.endswith(".toml") and not Path(word).exists() for word in words)


def test_the_lists_contain_only_documented_commands(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)  # commands that redirect their output create the file
    documented = [block for page in PAGES for block in blocks(page)]
    started = [w for block in documented if block.language == "bash" for w in commands(block)]
    assert {shlex.join(words) for words in started} >= RUN
    assert {words[0] for words in started} >= NOT_STARTED.keys()
    assert {block.first_line for block in documented} >= PYTHON_NOT_RUN.keys()


def test_examples_in_help_are_valid() -> None:
    """`Example: ramet …` and the lines under `Examples:` in every command's help."""
    examples = [
        shlex.split(line)
        for text in _helps(command_line())
        for line in re.findall(r"^(?:Example: )?(ramet [a-z].*)$", text, re.MULTILINE)
    ]
    assert len(examples) > 12
    for words in examples:
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
def test_a_wrong_command_is_detected(line: str) -> None:
    with pytest.raises((AssertionError, click.UsageError, ramet.RametError, SystemExit)):
        check(next(commands(Block("bash", line + "\n"))))
