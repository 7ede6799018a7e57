"""Wheel and sdist in a clean environment without extras, and a run with each."""

from __future__ import annotations

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


def _done(*command: str | Path, cwd: Path, code: int = 0) -> str:
    """What a command prints, started without anything of this checkout on its path."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "VIRTUAL_ENV")}
    done = subprocess.run(command, cwd=cwd, env=clean, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stdout + done.stderr
    return done.stdout + done.stderr if code else done.stdout


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Those of RAMET_DIST, or new ones."""
    given = os.environ.get("RAMET_DIST")
    if given:
        return Path(given)
    folder = tmp_path_factory.mktemp("dist")
    _done(sys.executable, "-m", "build", "--outdir", folder, ROOT, cwd=folder)
    return folder


@pytest.fixture(scope="module")
def bin_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("clean")
    _done(sys.executable, "-m", "venv", folder / "venv", cwd=folder)
    _install(folder / "venv" / "bin", "torch==2.13.0")
    return folder / "venv" / "bin"


def _install(bin_folder: Path, what: str | Path) -> None:
    quick = ("install", "-q", "--no-compile", "-c", ROOT / "constraints.txt")
    _done(bin_folder / "pip", *quick, what, cwd=bin_folder)


def test_what_is_in_them(dist: Path) -> None:
    (wheel,), (sdist,) = dist.glob("*.whl"), dist.glob("*.tar.gz")
    assert wheel.name == f"ramet-{ramet.__version__}-py3-none-any.whl"
    with zipfile.ZipFile(wheel) as packed:
        inside = packed.namelist()
    assert "ramet/experiments/tan2023_fedstar.toml" in inside
    assert "ramet/py.typed" in inside
    assert not [name for name in inside if name.startswith(("tests", "results"))]
    with tarfile.open(sdist) as sources:
        names = {name.partition("/")[2] for name in sources.getnames()}
    assert {"constraints.txt", "tests/conftest.py", "CITATION.cff", "LICENSE"} <= names


@pytest.mark.parametrize("kind", ["*.whl", "*.tar.gz"])
def test_installed_alone_it_runs(kind: str, dist: Path, bin_folder: Path, tmp_path: Path) -> None:
    (built,) = dist.glob(kind)
    subprocess.run([bin_folder / "pip", "uninstall", "-q", "-y", "ramet"], check=True)
    _install(bin_folder, built)
    command = bin_folder / "ramet"
    assert _done(command, "--version", cwd=tmp_path).strip() == ramet.__version__
    words = ["run", "fedstar", "--setting", "tiny", "--rounds", "2", "--json"]
    there = json.loads(_done(command, *words, cwd=tmp_path))
    here = ramet.run("fedstar", "tiny", rounds=2, out=tmp_path / "here").summary
    assert there["sha256"] == here.sha256
    listed = _done(bin_folder / "pip", "list", cwd=tmp_path).lower()
    assert not [name for name in ("flwr", "ray ", "matplotlib", "mlflow") if name in listed]
    for words, extra in ((["--engine", "ray"], "flower"), (["--track", "wandb"], "wandb")):
        told = _done(command, "run", "fedstar", *words, cwd=tmp_path, code=2)
        assert f"pip install 'ramet[{extra}]'" in " ".join(told.split())
    told = _done(command, "reproduce", "feddense", "table9", cwd=tmp_path, code=2)
    assert "table2" in told
