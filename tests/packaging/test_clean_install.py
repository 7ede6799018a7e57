"""Install the wheel and the sdist in a clean environment without extras, and run with each."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

import ramet

ROOT = Path(__file__).parents[2]
pytestmark = [pytest.mark.e2e, pytest.mark.thorough]


def _run(*command: str | Path, cwd: Path, code: int = 0) -> str:
    """The output of a command that runs without this checkout on its path."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr if code else done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder RAMET_DIST, or a new one with a wheel and an sdist."""
    given = os.environ.get("RAMET_DIST")
    if given:
        return Path(given)
    folder = tmp_path_factory.mktemp("dist")
    _run(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clean")
    _run(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    _install(folder / "venv" / "bin", "torch==2.13.0")
    return folder / "venv" / "bin"


def _install(bin_folder: Path, package: str | Path) -> None:
    arguments = ("install", "-q", "--no-compile", "-c", ROOT / "constraints.txt")
    _run(bin_folder / "pip", *arguments, package, cwd=bin_folder)


def test_contents(dist: Path) -> None:
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    assert wheel.name == f"ramet-{ramet.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as packed:
        files = packed.namelist()
    assert "ramet/experiments/tan2023_fedstar.toml" in files
    assert "ramet/py.typed" in files
    assert not [name for name in files if name.startswith(("tests", "results"))]
    with tarfile.open(sdist) as sources:
        names = {name.partition("/")[2] for name in sources.getnames()}
    assert {"constraints.txt", "tests/conftest.py", "CITATION.cff", "LICENSE"} <= names


def test_two_builds_are_equal_byte_for_byte(dist: Path, tmp_path: Path) -> None:
    """From another clone, later, with other permissions."""
    _run("git", "clone", "-q", ROOT, tmp_path / "clone", cwd=tmp_path)
    (tmp_path / "clone" / "README.md").chmod(0o600)
    _run(sys.executable, "-m", "build", "--outdir", tmp_path / "dist", "clone", cwd=tmp_path)
    first, second = (
        {
            file.name: hashlib.sha256(file.read_bytes()).hexdigest()
            for file in sorted(folder.iterdir())
        }
        for folder in (dist, tmp_path / "dist")
    )
    assert first == second
    assert len(first) == 2


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_it_runs_without_extras(kind: str, dist: Path, bin_folder: Path, tmp_path: Path) -> None:
    (built,) = dist.glob(kind)
    subprocess.run([bin_folder / "pip", "uninstall", "-q", "-y", "ramet"], check=True)
    _install(bin_folder, built)
    command = bin_folder / "ramet"
    assert _run(command, "--version", cwd=tmp_path).strip() == ramet.__version__
    words = ["run", "fedstar", "--setting", "tiny", "--rounds", "2", "--json"]
    there = json.loads(_run(command, *words, cwd=tmp_path))
    here = ramet.run("fedstar", "tiny", rounds=2, out=tmp_path / "here").summary
    assert there["sha256"] == here.sha256
    listed = _run(bin_folder / "pip", "list", cwd=tmp_path).lower()
    assert not [name for name in ("flwr", "ray ", "matplotlib", "mlflow") if name in listed]
    for words, extra in ((["--engine", "ray"], "flower"), (["--track", "wandb"], "wandb")):
        output = _run(command, "run", "fedstar", *words, cwd=tmp_path, code=2)
        assert f"pip install 'ramet[{extra}]'" in " ".join(output.split())
    output = _run(command, "reproduce", "feddense", "table9", cwd=tmp_path, code=2)
    assert "table2" in output
