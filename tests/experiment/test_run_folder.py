"""A process can be killed at any write while it creates the folder of a run."""

from __future__ import annotations

import os
from pathlib import Path
from unittest.mock import patch

import pytest

from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder
from ramet.experiment.settings import RunSettings

SETTINGS = RunSettings.model_validate(
    {"method": "local", "setting": "tiny", "rounds": 1, "data": Path()}
)
WRITES = ("versions.json", "split.json", "baselines.json", "settings.json")


def _names(folder: Path) -> set[str]:
    return {path.name for path in folder.iterdir()}


def _create_until(folder: Path, name: str) -> None:
    """Create a folder in another process, which ends before it has written a certain file."""
    child = os.fork()
    if not child:
        replace = Path.replace

        def killed_at(source: Path, target: Path) -> Path:
            return os._exit(9) if target.name == name else replace(source, target)

        try:
            with patch.object(Path, "replace", killed_at):
                RunFolder.create(folder, Experiment(SETTINGS))
        finally:
            os._exit(1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 9


@pytest.mark.parametrize("name", WRITES)
def test_a_killed_creation_begins_again(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    _create_until(folder, name)
    assert not RunFolder(folder).started
    assert _names(folder)
    run = RunFolder.create(folder, Experiment(SETTINGS))
    assert run.started
    assert {*WRITES} <= _names(folder)


def test_two_processes_do_not_create_one_folder(tmp_path: Path) -> None:
    _create_until(tmp_path, "settings.json")
    other = RunFolder(tmp_path)
    with other.locked("create"), pytest.raises(RametError, match="another process"):
        RunFolder.create(tmp_path, Experiment(SETTINGS))


def test_a_folder_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "thesis.tex").write_text("a thesis")
    with pytest.raises(RametError, match="is not an empty folder"):
        RunFolder.create(tmp_path, Experiment(SETTINGS))
    assert _names(tmp_path) == {"thesis.tex"}
