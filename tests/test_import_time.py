"""The start-up time of `import ramet` and `ramet --help`."""

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
NOT_NEEDED = tuple(name for name in HEAVY if name not in ("torch", "pydantic"))
AT_EXIT = "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "


def _imported(code: str, *arguments: str) -> set[str]:
    """The packages that a new Python process has imported after running the code."""
    done = subprocess.run(
        [sys.executable, "-c", AT_EXIT + code, *arguments],
        capture_output=True,
        text=True,
        check=True,
    )
    return {name.partition(".")[0] for name in done.stderr.split()}


def test_importing_ramet_imports_nothing_heavy() -> None:
    imported = _imported("import ramet")
    assert "ramet" in imported
    assert not imported & set(HEAVY)


def test_lazy_names_are_listed_without_importing_anything_heavy() -> None:
    names = {"run", "resume", "results", "Method", "fedstar", "assembled", "__version__"}
    imported = _imported(f"import ramet; assert set(dir(ramet)) >= {names}")
    assert not imported & set(HEAVY)


@pytest.mark.parametrize("words", [[], ["run"], ["compare"], ["data"], ["deploy", "run"]])
def test_help_imports_nothing_heavy(words: list[str]) -> None:
    imported = _imported("from ramet.cli.main import main; main()", *words, "--help")
    assert "typer" in imported
    assert not imported & set(HEAVY)


def test_the_public_api_imports_no_heavy_package_but_torch_and_pydantic() -> None:
    imported = _imported("import ramet; ramet.run; ramet.METHODS; ramet.SETTINGS")
    assert "torch" in imported
    assert not imported & set(NOT_NEEDED)


@pytest.mark.thorough
def test_ramet_adds_little_to_torch_and_pyg() -> None:
    """About 0.2 s compared with 2 s; a ratio also holds on a busy machine."""
    code = (
        "import json, time\n"
        "start = time.process_time()\n"
        "import torch, torch_geometric\n"
        "middle = time.process_time()\n"
        "import ramet\n"
        "ramet.run, ramet.METHODS, ramet.SETTINGS\n"
        "print(json.dumps([middle - start, time.process_time() - middle]))\n"
    )
    measured = []
    for _ in range(3):
        command = [sys.executable, "-c", code]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        torch_seconds, ramet_seconds = json.loads(done.stdout)
        measured.append(ramet_seconds / max(1.5, torch_seconds))
    assert min(measured) < 0.2


def test_help_takes_less_than_half_a_second_of_one_core() -> None:
    """0.4 s compared with 0.22 s of Typer's own; a ratio also holds on a busy machine.

    They take turns, so that both have a share of its quiet moments.
    """
    seconds = [[_cpu_seconds_of_help(module) for module in ("typer", "ramet")] for _ in range(4)]
    typer_seconds, ramet_seconds = map(min, zip(*seconds, strict=True))
    assert ramet_seconds < max(0.5, 2.5 * typer_seconds)


def _cpu_seconds_of_help(module: str) -> float:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(
        [sys.executable, "-m", module, "--help"],
        stdout=subprocess.DEVNULL,
        check=True,
        env={**os.environ, "COLUMNS": "100"},
    )
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
