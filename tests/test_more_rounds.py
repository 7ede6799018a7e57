"""A finished run that goes on is the run that was started with more rounds."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import pytest

import ramet
from command_line import ramet as command
from federations import PLANTED, wavering_run, with_all_states
from ramet.engine.store.client_state import model_arrays
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.continuing import continue_with
from ramet.payload import digest

METHODS = ("fedper", "scaffold", "ditto", "fedbuff", "gcfl", "fedda")


@pytest.mark.parametrize("method", METHODS)
def test_more_rounds_give_the_result_of_a_longer_run(method: str, tmp_path: Path) -> None:
    given: Any = {**PLANTED, "seed": 2, "lr": 0.05}
    whole = ramet.run(method, "planted", rounds=5, out=tmp_path / "whole", **given)
    first = ramet.run(method, "planted", rounds=2, out=tmp_path / "r", **given)
    assert first.summary.sha256 != whole.summary.sha256
    longer = ramet.resume(first.folder, rounds=5)
    for fact in ("sha256", "scores", "traffic", "sent", "rounds"):
        assert getattr(longer.summary, fact) == getattr(whole.summary, fact)
    ours, theirs = RunFolder(longer.folder).records(), RunFolder(whole.folder).records()
    clock: Any = {"seconds": 0.0, "memory": 0, "rounds": 5}
    assert [replace(one, **clock) for one in ours] == [replace(one, **clock) for one in theirs]
    assert RunFolder(longer.folder).experiment().settings.rounds == 5


def test_the_best_models_are_those_of_the_whole_run(tmp_path: Path) -> None:
    whole = wavering_run(tmp_path / "whole", 6)
    wavering_run(tmp_path / "r", 3)
    longer = ramet.resume(tmp_path / "r", rounds=6)
    assert longer.summary.scores.best_val_round == 4
    for client in whole.summary.scores.clients:
        models = (model_arrays(run.model(client, best=True)) for run in (whole, longer))
        assert len({digest(arrays) for arrays in models}) == 1


def test_a_stopped_run_can_get_another_end(tmp_path: Path) -> None:
    whole = wavering_run(tmp_path / "whole", 4)
    run = with_all_states(wavering_run(tmp_path / "longer", 6).folder, tmp_path / "r")
    (run.path / "result.json").unlink()
    for newest in sorted((run.path / "server").glob("*.safetensors"))[1:]:
        newest.unlink()
    assert ramet.resume(run.path, rounds=4).summary.sha256 == whole.summary.sha256


def test_fewer_rounds_than_done_are_refused(tmp_path: Path) -> None:
    run = ramet.run("local", rounds=3, out=tmp_path / "r")
    with pytest.raises(RametError, match=r"has done 3 rounds already.*cannot end after 2"):
        ramet.resume(run.folder, rounds=2)
    assert ramet.resume(run.folder, rounds=3).summary == run.summary


def test_settings_with_more_rounds_extend_a_run(tmp_path: Path) -> None:
    run = ramet.run("local", rounds=2, out=tmp_path / "r")
    folder = RunFolder(run.folder)
    settings = folder.experiment().settings
    continue_with(folder, settings)
    assert folder.summary() is not None
    for fewer_or_other in ({"rounds": 1}, {"rounds": 5, "seed": 4}):
        with pytest.raises(RametError, match="other settings"):
            continue_with(folder, settings.model_copy(update=fewer_or_other))
    assert folder.summary() is not None
    continue_with(folder, settings.model_copy(update={"rounds": 3}))
    assert ramet.resume(run.folder).summary.rounds == 3


def test_a_run_that_stopped_early_is_over(tmp_path: Path) -> None:
    run = wavering_run(tmp_path / "r", 30, patience=2)
    with pytest.raises(RametError, match=r"stopped early after round \d+.*--patience"):
        ramet.resume(run.folder, rounds=40)
    assert ramet.resume(run.folder).summary == run.summary


def test_a_finished_run_with_secure_sums_has_no_more_rounds(tmp_path: Path) -> None:
    run = ramet.run("fedstar", rounds=1, secure=True, out=tmp_path / "r")
    with pytest.raises(RametError, match=r"closed by its last secure sum.*--from"):
        ramet.resume(run.folder, rounds=2)
    assert ramet.resume(run.folder).summary == run.summary


def test_the_command(tmp_path: Path) -> None:
    ramet.run("local", rounds=1, out=tmp_path / "r")
    done = command("resume", tmp_path / "r", "--rounds", "2", "--json")
    assert done.code == 0, done.stderr
    assert json.loads(done.stdout)["rounds"] == 2


@pytest.mark.e2e
@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["superlink", "ray"])
def test_more_rounds_over_flower(engine: Literal["ray", "superlink"], tmp_path: Path) -> None:
    whole = ramet.run("fedstar", rounds=4, seed=2, out=tmp_path / "whole")
    ramet.run("fedstar", rounds=2, seed=2, engine=engine, out=tmp_path / "r")
    longer = ramet.resume(tmp_path / "r", rounds=4)
    assert longer.summary.sha256 == whole.summary.sha256
    assert longer.summary.scores == whole.summary.scores
