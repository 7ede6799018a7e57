"""What people wait for before anything happens: `import ramet` and `ramet --help`."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys

import pytest

HEAVY = (
    *("flwr", "matplotlib", "mlflow", "networkx", "pandas", "pydantic", "ray", "scipy", "sklearn"),
    *("tensorboard", "torch", "torch_geometric", "wandb"),
)
WITHOUT_NEED = tuple(name for name in HEAVY if name not in ("torch", "pydantic"))
AT_EXIT = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "


def _loaded(code: str, *arguments: str) -> set[str]:
    """The packages that a fresh Python has loaded when it is done with the code."""
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT + code, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stderr.split()}


def test_importing_ramet_loads_nothing_heavy() -> None:
    found = _loaded("import ramet")
    assert "ramet" in found
    assert not found & set(HEAVY)


def test_all_lazy_names_are_listed_without_loading_anything_heavy() -> None:
    names = {"run", "resume", "results", "Method", "fedstar", "fed_gcn", "__version__"}
    found = _loaded(f"import ramet; assert set(dir(ramet)) >= {names}")
    assert not found & set(HEAVY)


@pytest.mark.parametrize("words", [[], ["run"], ["compare"], ["data"], ["deploy", "run"]])
def test_help_loads_nothing_heavy(words: list[str]) -> None:
    found = _loaded("from ramet.cli.main import main; main()", *words, "--help")
    assert "typer" in found
    assert not found & set(HEAVY)


def test_what_a_run_starts_with_is_torch_alone() -> None:
    found = _loaded("import ramet; ramet.run; ramet.METHODS; ramet.SETTINGS")
    assert "torch" in found
    assert not found & set(WITHOUT_NEED)


def test_ramet_adds_little_to_torch_and_pyg() -> None:
    """About 0.2 s beside 2 s; as a share it holds on a busy machine, too."""
    code = (
        "import json, time\n"
        "start = time.process_time()\n"
        "import torch, torch_geometric\n"
        "there = time.process_time()\n"
        "import ramet\n"
        "ramet.run, ramet.METHODS, ramet.SETTINGS\n"
        "print(json.dumps([there - start, time.process_time() - there]))\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    theirs, ours = json.loads(done.stdout)
    assert ours < max(0.3, 0.2 * theirs)


def test_help_takes_less_than_half_a_second_of_one_core() -> None:
    assert min(_cpu_seconds_of_help() for _ in range(3)) < 0.5


def _cpu_seconds_of_help() -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", "ramet", "--help"],
        stdout=subprocess.DEVNULL,
        check=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
