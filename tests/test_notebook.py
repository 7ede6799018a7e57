"""Runs in a notebook, which a real kernel executes, and in IPython's terminal."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbclient import NotebookClient

import ramet
from ramet.runs import Result

CELLS = (
    "import ramet",
    "result = ramet.run('fedstar', rounds=3, out='run')",
    "result",
    "result.plot()",
    "ramet.run('fedstarr')",
)


@pytest.fixture(scope="module")
def executed(tmp_path_factory: pytest.TempPathFactory) -> list[list[Any]]:
    """The outputs of each cell."""
    notebook = nbformat.v4.new_notebook(cells=[nbformat.v4.new_code_cell(c) for c in CELLS])  # type: ignore[no-untyped-call]
    folder = tmp_path_factory.mktemp("notebook")
    client = NotebookClient(
        notebook,
        timeout=300,
        iopub_timeout=120,
        startup_timeout=300,
        allow_errors=True,
        kernel_name="python3",
        resources={"metadata": {"path": str(folder)}},
    )
    client.execute()
    return [cell.outputs for cell in notebook.cells]


def test_progress_is_one_line_that_is_updated(executed: list[list[Any]]) -> None:
    (shown,) = executed[1]
    assert shown.output_type == "display_data"
    assert '<progress value="3" max="3">' in shown.data["text/html"]
    assert "round 3 of 3: test" in shown.data["text/html"]


def test_a_result_is_a_table(executed: list[list[Any]]) -> None:
    (shown,) = executed[2]
    assert "<td>rings</td>" in shown.data["text/html"]
    assert "fedstar on tiny, 3 rounds, seed 0" in shown.data["text/plain"]


def test_a_plot_is_shown_once(executed: list[list[Any]]) -> None:
    (shown,) = executed[3]
    assert "image/png" in shown.data


def test_an_error_is_one_line(executed: list[list[Any]]) -> None:
    (shown,) = executed[4]
    assert shown.output_type == "error"
    (line,) = shown.traceback
    assert line.startswith("RametError: unknown method 'fedstarr'. Did you mean 'fedstar'?")


def test_the_terminal_of_ipython_shows_one_line(tmp_path: Path) -> None:
    code = "import ramet; result = ramet.run('local', rounds=2, out='run')"
    done = subprocess.run(
        [sys.executable, "-m", "IPython", "--colors=NoColor", "-c", code],
        capture_output=True,
        cwd=tmp_path,
    )
    assert b"\rround 2 of 2: test " in done.stdout, done.stderr


def test_nothing_is_shown_outside_of_ipython(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    result = ramet.run("local", rounds=1, out=tmp_path / "run")
    assert capsys.readouterr().out == ""
    assert str(result).splitlines()[1].split() == ["client", "test", "accuracy"]
    assert len(str(result).splitlines()) == 2 + 3 + 2


def test_curves_have_a_line_per_client_and_one_for_the_mean(tiny_folder: Path) -> None:
    result = ramet.resume(tiny_folder / "fedstar-1")
    assert isinstance(result, Result)
    axes = result.plot().axes[0]
    assert [line.get_label() for line in axes.lines] == ["rings", "trees", "blocks", "mean"]
    mean = axes.lines[-1].get_ydata()[-1]  # type: ignore[index]
    assert mean == pytest.approx(100 * result.summary.scores.test)
