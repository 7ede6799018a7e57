"""An option of a run is declared in one place, and everything else is made from it."""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import ramet
from ramet.run_options import KEYWORDS, OPTIONS

ROOT = Path(__file__).parents[1]
FIELD = '    gleam: Annotated[float | None, Gt(0), _server("How bright.", "LUX")] = None\n'
USES = """
import inspect, sys
from pathlib import Path
import ramet
from typer.testing import CliRunner
from ramet.cli.main import app
from ramet.experiment import checked_settings

assert ramet.__file__.startswith(sys.argv[1])
for command in ("run", "compare", "tune"):
    help = CliRunner().invoke(app, [command, "--help"], env={"COLUMNS": "200"}).output
    (line,) = [line for line in help.splitlines() if "--gleam" in line]
    assert "LUX" in line and "How bright." in line, line
for function in (ramet.run, ramet.tune):
    assert inspect.signature(function).parameters["gleam"].annotation == float | None
    assert "gleam: How bright." in function.__doc__
settings = checked_settings(method="fedavg", setting="tiny", gleam=2.5)
assert "--gleam 2.5" in settings.command
sys.path.insert(0, sys.argv[2])
import option_table
assert "| `--gleam` | `gleam` |  | How bright. |" in option_table.table()
result = ramet.run("local", "tiny", rounds=1, gleam=0.5, out=Path(sys.argv[1]) / "run")
assert ramet.runs.RunFolder(result.folder).experiment().settings.gleam == 0.5

import tomllib
from ramet.flower.run_config import from_run_config, to_run_config
from ramet.flower.thin_app import thin_app

config = to_run_config(settings, Path("run"))
assert config["gleam"] == 2.5 and from_run_config(config) == settings
app = tomllib.loads((thin_app() / "pyproject.toml").read_text())
assert app["tool"]["flwr"]["app"]["config"]["gleam"] == 0.0
"""


def test_a_new_option_is_one_field(tmp_path: Path) -> None:
    """In a copy of the package, in which a field is added and nothing else."""
    unused = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / "src" / "ramet", tmp_path / "ramet", ignore=unused)
    declared = tmp_path / "ramet" / "run_options.py"
    text = declared.read_text()
    before = "    split_seed: Annotated["
    assert text.count(before) == 1
    declared.write_text(text.replace(before, FIELD + before))
    pytest.importorskip("flwr", reason="the extra `flower` is not installed")
    done = subprocess.run(
        [sys.executable, "-c", USES, tmp_path, ROOT / "docs" / "hooks"],
        env={**os.environ, "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr


def test_every_keyword_is_explained_and_has_its_default() -> None:
    parameters = inspect.signature(ramet.run).parameters
    assert {*KEYWORDS} <= {*parameters}
    for name in KEYWORDS:
        assert parameters[name].default == OPTIONS[name].default
        assert f"{name}: {OPTIONS[name].option.help}" in (ramet.run.__doc__ or "")


def test_the_docs_have_a_place_for_the_table() -> None:
    hook = (ROOT / "docs" / "hooks" / "option_table.py").read_text()
    page = (ROOT / "docs" / "reference.md").read_text()
    assert [line for line in page.splitlines() if line.startswith("<!--") and line in hook]


def test_unknown_keywords_of_resume_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="unexpected keyword argument 'wokers'"):
        ramet.resume(tmp_path, wokers=2)
