"""A command that is refused leaves every folder as it was."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
from typer.main import get_command

import attempts
from attempts import Attempt, attempt, restore
from command_line import ramet as command
from disks import filled, nothing_can_be_written, small_disk
from own_sites import node_site
from ramet.cli.main import app
from ramet.experiment import Experiment, MethodSpec
from ramet.runs import start
from ramet.studies.archive import keep
from ramet.studies.finished_run import FinishedRun
from ramet.studies.sweep import Sweep

TESTS = Path(attempts.__file__).parent
SITES = "--site north/site.toml --site south/site.toml"
CONSORTIUM = """
name = "two"
address = "localhost"
sites = ["north", "south"]
method = "{method}"
rounds = 1
options = {{ task = "node-classification" }}
"""
EXTRAS = {
    *("Crypto", "alembic", "captum", "cryptography", "dp_accounting", "dtaidistance", "flwr"),
    *("jinja2", "matplotlib", "mlflow", "nacl", "onnx", "onnxruntime", "onnxscript", "optuna"),
    *("prometheus_client", "psutil", "pyarrow", "pymetis", "ray", "sqlalchemy", "tensorboard"),
    *("tomli_w", "wandb", "yaml"),
}
"""What Ramet's extras install."""


class Works(str):
    """A command that is not refused for this cause, and changes nothing either."""


class Either(str):
    """A command that changes nothing, whether it is refused or not."""


class Never(str):
    """Why this cause cannot refuse the command."""


READS = Never("only reads")
ANEW = Never("takes the data as it is")
NO_EXTRA = Never("needs no extra")
WRITES_NOTHING = Never("writes nothing here")
RUNS_PROGRAMS = Never("starts or stops programs, which write their own logs")
CHANGED, OPTION, FULL, EXTRA = "changed data", "a wrong option", "a full disk", "a missing extra"
CAUSES = (CHANGED, OPTION, FULL, EXTRA)
LEAK = "leak run --references 0 --canaries 0"
COMPARE = f"compare local,hidden=4 fedavg,hidden=4 {SITES} --seeds 1 --out sweep"
TUNE = f"tune fedavg,hidden=4 {SITES} --rounds 1 --out tuned --search lr=0.01,0.02"
INIT = "deploy init consortium.toml --out coordinator"
JOIN = "deploy join coordinator/invitations/north.toml --data north/site.toml --out site"
FIGURE = f"reproduce fedda figure2 --finished --kept {TESTS.parent / 'results'} --out sweeps"


def causes(changed: str, option: str, full: str, extra: str) -> dict[str, str]:
    return dict(zip(CAUSES, (changed, option, full, extra), strict=True))


REFUSALS: dict[str, dict[str, str]] = {
    "run": causes(
        ANEW,
        f"run fedavg {SITES} --out run",
        f"run fedavg {SITES} --rounds 1 --out new",
        f"run fedavg {SITES} --rounds 1 --out new --track wandb",
    ),
    "resume": causes(
        "resume run --rounds 2",
        "resume run --rounds 2 --ray-address localhost:1",
        "resume run --rounds 2",
        "resume run --rounds 2 --track wandb",
    ),
    "evaluate": causes(
        Works("evaluate run"), "evaluate run --client west", Works("evaluate run"), NO_EXTRA
    ),
    "predict": causes(
        ANEW,
        "predict run --site north/site.toml --client west --out predicted.csv",
        "predict run --site north/site.toml --out predicted.csv",
        "predict run --site north/site.toml --out predicted.parquet",
    ),
    "explain": causes(
        ANEW,
        "explain run --site north/site.toml --id nobody --out explained.png",
        "explain run --site north/site.toml --id p1 --out explained.png",
        "explain run --site north/site.toml --id p1 --out explained.png",
    ),
    "export": causes(
        Never("warns"),
        "export run exported --site north",
        "export run new --site north --no-programs",
        "export run new --site north --no-programs",
    ),
    "leak": causes(LEAK, "leak run --bar beauty=1", LEAK, f"{LEAK} --plot leak.png"),
    "compare": causes(
        f"{COMPARE} --rounds 1",
        f"{COMPARE} --rounds 2 --keep kept",
        f"{COMPARE} --rounds 1 --keep new",
        "compare fedstar --setting tiny --rounds 1 --seeds 1 --secure --out sweep",
    ),
    "tune": causes(
        f"{TUNE} --trials 1",
        f"{TUNE},0.03 --trials 1",
        f"{TUNE} --trials 2",
        f"{TUNE} --trials 1",
    ),
    "reproduce": causes(ANEW, f"{FIGURE} --only beauty", FIGURE, FIGURE),
    "report": causes(
        READS,
        "report nowhere --out report",
        "report sweep --out report",
        "report sweep --out report",
    ),
    "board": causes(
        READS, "board nowhere --out board", "board kept --out board", "board kept --out board"
    ),
    "data inspect": causes(
        ANEW,
        f"data inspect {SITES} --setting tiny --out figures",
        f"data inspect {SITES} --out figures",
        f"data inspect {SITES} --out figures",
    ),
    "data check": causes(
        ANEW, "data check north/patients.csv", "data check north/site.toml", NO_EXTRA
    ),
    "data drift": causes(
        READS,
        "data drift north/patients.csv --new north",
        "data drift north/site.toml --new north --figure drift.png",
        "data drift north/site.toml --new north --figure drift.png",
    ),
    "data without": causes(
        ANEW,
        "data without north/site.toml --rows nowhere.txt",
        "data without north/site.toml --rows ids.txt",
        NO_EXTRA,
    ),
    "app": causes(READS, "app app", "app new", NO_EXTRA),
    "guard": causes(READS, "guard north/site.toml", "guard guard", "guard guard"),
    "audit show": causes(READS, "audit show nowhere", Works("audit show run"), NO_EXTRA),
    "audit verify": causes(READS, "audit verify run", WRITES_NOTHING, Never("says so")),
    "charter show": causes(READS, "charter show run", WRITES_NOTHING, Never("says so")),
    "charter sign": causes(
        READS, "charter sign 0123456789ab site", WRITES_NOTHING, Never("says so")
    ),
    "charter verify": causes(READS, "charter verify run", WRITES_NOTHING, Never("says so")),
    "dossier": causes(
        READS, "dossier nowhere --for card", "dossier run --for card --out card.md", NO_EXTRA
    ),
    "watch": causes(
        READS, "watch nowhere", "watch run --once --html watched.html", Never("needs no extra")
    ),
    "forget": causes(
        ANEW,
        "forget run --site west",
        "forget run --site south --out new",
        NO_EXTRA,
    ),
    "certificate sign": causes(
        READS, "certificate sign north/site.toml site", WRITES_NOTHING, Never("says so")
    ),
    "certificate verify": causes(
        READS, "certificate verify north/site.toml", WRITES_NOTHING, Never("says so")
    ),
    "audit export": causes(
        READS,
        "audit export run --cursor north/site.toml",
        "audit export run --cursor shipped.json",
        NO_EXTRA,
    ),
    "policy show": causes(READS, "policy show run", Works("policy show site"), "policy show site"),
    "policy check": causes(
        READS, "policy check run north", Works("policy check run site"), "policy check run site"
    ),
    "link start": causes(ANEW, *3 * ("link start north north/patients.csv site",)),
    "link answer": causes(ANEW, *3 * ("link answer consortium.toml north/patients.csv site",)),
    "link finish": causes(READS, *3 * ("link finish consortium.toml site",)),
    "doctor": causes(READS, Never("has none"), Either("doctor coordinator"), "doctor coordinator"),
    "deploy init": causes(READS, "deploy init wrong.toml --out coordinator", INIT, INIT),
    "deploy join": causes(ANEW, JOIN.replace("--data north", "--data south"), JOIN, JOIN),
    "deploy admit": causes(
        READS,
        "deploy admit consortium.toml coordinator",
        "deploy admit site/north.application.toml coordinator",
        "deploy admit site/north.application.toml coordinator",
    ),
    "deploy member": causes(
        READS,
        "deploy member consortium.toml site",
        "deploy member site/north.application.toml site",
        "deploy member site/north.application.toml site",
    ),
    "deploy remove-member": causes(
        READS,
        "deploy remove-member west site",
        "deploy remove-member south site",
        "deploy remove-member south site",
    ),
    "deploy answer": causes(
        READS,
        "deploy answer nowhere site",
        Never("the site's own state is tested with its answers"),
        "deploy answer north site",
    ),
    "deploy due": causes(READS, "deploy due site", RUNS_PROGRAMS, "deploy due coordinator"),
    "deploy releases": causes(
        READS, "deploy releases site", Works("deploy releases coordinator"), "deploy releases site"
    ),
    "deploy roll-back": causes(
        READS, "deploy roll-back coordinator", RUNS_PROGRAMS, "deploy roll-back coordinator"
    ),
    "deploy revoke": causes(
        READS,
        "deploy revoke west coordinator",
        "deploy revoke north coordinator",
        "deploy revoke north coordinator",
    ),
    "deploy start": causes(READS, "deploy start run", RUNS_PROGRAMS, "deploy start coordinator"),
    "deploy stop": causes(READS, "deploy stop run", RUNS_PROGRAMS, "deploy stop coordinator"),
    "deploy status": causes(READS, "deploy status run", "deploy status site", "deploy status site"),
    "deploy alive": causes(READS, "deploy alive run", "deploy alive site", "deploy alive site"),
    "deploy metrics": causes(
        READS,
        "deploy metrics run --textfile site.prom",
        "deploy metrics site --textfile site.prom",
        "deploy metrics site --textfile site.prom",
    ),
    "deploy monitoring": causes(
        READS, "deploy monitoring north/site.toml", "deploy monitoring monitoring", NO_EXTRA
    ),
    "deploy run": causes(
        READS, "deploy run site", "deploy run coordinator", "deploy run coordinator"
    ),
}
NO_FOLDER = {
    **{
        f"list {what}": "prints a list"
        for what in (
            *("methods", "protocols", "networks", "activations", "releases", "merges"),
            *("settings", "tasks"),
        )
    },
    "new": "refuses a file that exists, in its own test",
    "try": "its runs are in a temporary folder",
}
CASES = [
    pytest.param(line, cause, id=f"{name}, {cause}")
    for name, lines in REFUSALS.items()
    for cause, line in lines.items()
    if not isinstance(line, Never)
]


def test_every_command_is_in_the_lists() -> None:
    assert {*REFUSALS, *NO_FOLDER} == {*_commands(get_command(app))}
    assert not REFUSALS.keys() & NO_FOLDER.keys()


def _commands(group: Any, *names: str) -> Iterator[str]:
    for name, one in group.commands.items():
        yield from (
            _commands(one, *names, name) if hasattr(one, "commands") else [" ".join([*names, name])]
        )


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Path, bool]]:
    """The folder that all commands work in, and whether it is a disk of its own."""
    folder = tmp_path_factory.mktemp("disk")
    with small_disk(folder, megabytes=32) as mounted:
        yield folder, mounted


@pytest.fixture(scope="module")
def pristine(disk: tuple[Path, bool], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the folder as it is before each command, with results of most commands."""
    here = disk[0]
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(here)
        _fill_with_results(here)
    copy = tmp_path_factory.mktemp("pristine")
    restore(copy, here)
    return copy


def _fill_with_results(here: Path) -> None:
    for number, name in enumerate(("north", "south")):
        node_site(here / name, number)
    _do(f"run fedavg {SITES} --rounds 1 --set hidden=4 --out run")
    methods = tuple(map(MethodSpec.parse, ("local,hidden=4", "fedavg,hidden=4")))
    options = {"sites": "north/site.toml south/site.toml"}
    sweep = Sweep(methods, "own", (1,), here / "sweep", given={"rounds": 1}, options=options)
    for method, draw in sweep.pairs():
        start(Experiment(sweep.settings(method, draw)), sweep.run_folder(method, draw).path)
    runs = [FinishedRun.of(sweep.run_folder(*pair)) for pair in sweep.pairs()]
    keep([run for run in runs if run], here / "kept")
    (here / "consortium.toml").write_text(CONSORTIUM.format(method="fedavg"))
    (here / "ids.txt").write_text("p1\n")
    (here / "wrong.toml").write_text(CONSORTIUM.format(method="fedbeauty"))
    for old in ("predicted.csv", "explained.png", "leak.png", "exported/README.md", "site.prom"):
        (here / old).parent.mkdir(exist_ok=True)
        (here / old).write_text("of an earlier command")
    for line in (
        *(f"{TUNE} --trials 1", "data check north/site.toml", "app app", "guard guard"),
        *("audit export run --cursor shipped.json", INIT, JOIN),
        "deploy admit site/north.application.toml coordinator",
    ):
        _do(line)
    members = here / "site" / "members.toml"
    members.write_text(f'{members.read_text()}south = "00"\n')


def _do(line: str) -> None:
    done = command(*line.split())
    assert done.code == 0, (line, done)


@pytest.fixture
def here(
    disk: tuple[Path, bool], pristine: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Path]:
    monkeypatch.chdir(disk[0])
    yield disk[0]
    restore(disk[0], pristine)


@pytest.fixture(scope="module")
def without_extras(
    disk: tuple[Path, bool], pristine: Path, tmp_path_factory: pytest.TempPathFactory
) -> Mapping[str, Attempt]:
    """The commands that need an extra, in a process that has none."""
    site = tmp_path_factory.mktemp("site")
    (site / "sitecustomize.py").write_text(attempts.WITHOUT_EXTRAS.format(missing=EXTRAS))
    lines = [line for line, cause in (case.values for case in CASES) if cause == EXTRA]
    done = subprocess.run(
        [sys.executable, attempts.__file__, str(pristine)],
        input=json.dumps(lines),
        capture_output=True,
        text=True,
        check=False,
        cwd=disk[0],
        env={**os.environ, "PYTHONPATH": f"{site}:{TESTS}"},
    )
    assert done.returncode == 0, done.stderr
    return {line: Attempt(**facts) for line, facts in json.loads(done.stdout).items()}


def change_data(site: Path) -> None:
    """Change a feature of the first patient."""
    table = site / "patients.csv"
    head, first, *others = table.read_text().splitlines()
    number, _, *rest = first.split(",")
    table.write_text("\n".join([head, ",".join([number, "0.125", *rest]), *others]) + "\n")


@pytest.mark.parametrize(("line", "cause"), CASES)
def test_a_refused_command_changes_no_file(
    line: str, cause: str, here: Path, disk: tuple[Path, bool], request: pytest.FixtureRequest
) -> None:
    if cause == EXTRA:
        done = request.getfixturevalue("without_extras")[line]
    elif cause == FULL:
        with filled(here) if disk[1] else nothing_can_be_written():
            done = attempt(line, here)
    else:
        if cause == CHANGED:
            change_data(here / "north")
        done = attempt(line, here)
    assert not done.changed, done
    assert isinstance(line, Either) or (done.code == 0) == isinstance(line, Works), done
