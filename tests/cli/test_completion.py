"""Shell completion, in a real shell and without loading PyTorch."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ramet.cli import completion
from ramet.methods import ACTIVATIONS, MERGES, METHODS, PAPER_NAMES, SUMMATIONS
from ramet.models.networks import NETWORKS
from ramet.partition import SETTINGS
from ramet.tracking import TRACKERS


def test_completions_are_all_names_and_no_others() -> None:
    assert completion.method("") == [*METHODS, *PAPER_NAMES]
    assert completion.network("") == list(NETWORKS)
    assert completion.setting("") == list(SETTINGS)
    assert completion.activation("") == list(ACTIVATIONS)
    assert completion.merge("") == [*MERGES, *SUMMATIONS]
    assert completion.track("") == list(TRACKERS)


def _completed(*words: str) -> tuple[list[str], set[str]]:
    """The completions of the last word, and the packages loaded to compute them."""
    print_modules = (
        "import atexit, sys; atexit.register(lambda: print(*sys.modules, file=sys.stderr)); "
    )
    done = subprocess.run(
        [sys.executable, "-c", print_modules + "from ramet.cli.main import main; main()"],
        capture_output=True,
        text=True,
        check=False,
        env={
            **os.environ,
            "_RAMET_COMPLETE": "complete_bash",
            "COMP_WORDS": " ".join(["ramet", *words]),
            "COMP_CWORD": str(len(words)),
        },
    )
    return done.stdout.split(), {name.partition(".")[0] for name in done.stderr.split()}


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (("run", "fedst"), ["fedstar"]),
        (("run", "fedstar", "--setting", "cross"), ["cross-sim", "cross-diff"]),
        (("run", "fedstar", "--merge", "m"), ["mean", "median"]),
        (("run", "fedstar", "--track", "t"), ["tensorboard"]),
        (("compare", "local", "gc"), ["gcfl", "gcfl+"]),
        (("res",), ["resume"]),
    ],
)
def test_bash_completes_names_without_torch(words: tuple[str, ...], offered: list[str]) -> None:
    completions, loaded = _completed(*words)
    assert completions == offered
    assert "typer" in loaded
    assert "torch" not in loaded


@pytest.mark.skipif(not shutil.which("bash"), reason="bash is not installed")
def test_completion_installed_in_a_home_folder_works_in_bash(tmp_path: Path) -> None:
    (tmp_path / "bin").mkdir()
    command = tmp_path / "bin" / "ramet"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m ramet "$@"\n')
    command.chmod(0o755)
    home = {
        **os.environ,
        "HOME": str(tmp_path),
        "PATH": f"{command.parent}:{os.environ['PATH']}",
        "_TYPER_COMPLETE_TEST_DISABLE_SHELL_DETECTION": "1",  # else: the one around pytest
    }
    installed = subprocess.run(
        [sys.executable, "-m", "ramet", "--install-completion", "bash"],
        env=home,
        capture_output=True,
        text=True,
        check=True,
    )
    assert "installed" in installed.stdout
    assert "ramet.sh" in (tmp_path / ".bashrc").read_text()
    press_tab = (
        f"source {tmp_path}/.bash_completions/ramet.sh\n"
        "COMP_WORDS=(ramet run feddens); COMP_CWORD=2\n"
        '_ramet_completion ramet; echo "${COMPREPLY[@]}"\n'
    )
    done = subprocess.run(
        ["bash", "-c", press_tab], env=home, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["feddense"], done.stderr
