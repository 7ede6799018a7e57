"""The models of the best round are kept, beside those of the last."""

from __future__ import annotations

import shutil
from contextlib import suppress
from pathlib import Path
from statistics import fmean

import numpy as np
import pandas as pd
import pytest
import torch
from numpy.testing import assert_allclose, assert_array_equal

import ramet
from command_line import ramet as command
from federations import PLANTED, wavering_run
from ramet.engine.server.state import MERGING, RunState
from ramet.engine.store.checkpoint import Snapshots
from ramet.engine.store.client_state import model_arrays
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.executing import execute
from ramet.experiment.local_engine import LiveClients
from ramet.experiment.run_models import saved_model_of
from ramet.payload import digest
from ramet.prediction import Trained
from ramet.studies.trial.wires import StoppedError, StoppingWire

ROUNDS, BEST, FIRST = 8, 4, "part-00"


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> ramet.Result:
    out = tmp_path_factory.mktemp("best") / "r"
    finished = wavering_run(out, ROUNDS)
    assert finished.summary.scores.best_val_round == BEST
    return finished


def best_models(run: ramet.Result) -> dict[str, str]:
    clients = run.summary.scores.clients
    return {client: digest(model_arrays(run.model(client, best=True))) for client in clients}


def test_the_best_models_have_the_scores_of_their_round(result: ramet.Result) -> None:
    frame, tests = result.frame, []
    of_best = frame[frame["round"] == BEST].set_index("client")
    for client in result.summary.scores.clients:
        found = result.evaluation(client, best=True)
        assert found["val"].metrics["accuracy"] == of_best["val"][client]
        assert found["test"].metrics["accuracy"] == of_best["test"][client]
        tests.append(found["test"].metrics["accuracy"])
    assert fmean(tests) == pytest.approx(result.summary.scores.test_at_best_val)


def test_the_server_keeps_its_arrays_of_the_best_round(result: ramet.Result) -> None:
    saved = Snapshots(result.folder / "server" / "best").load(BEST)
    best = RunState.restored(saved)[MERGING]
    model = model_arrays(result.model(FIRST, best=True))
    shared = [name for name in best.arrays if name in model]
    assert shared
    for name in shared:
        assert_array_equal(best.arrays[name], model[name])
    last = model_arrays(result.model(FIRST))
    assert any(not np.array_equal(last[name], model[name]) for name in shared)


def test_only_the_best_and_the_last_models_are_kept(result: ramet.Result) -> None:
    state = next(result.folder.glob(f"clients/*/{FIRST}"))
    assert Snapshots(state / "evaluated").steps() == [BEST, ROUNDS]
    with pytest.raises(RametError, match=r"has not kept its model of round 2:"):
        saved_model_of(RunFolder(result.folder).experiment(), FIRST, state.parent, 2)


@pytest.mark.parametrize("stop", range(2, ROUNDS + 2))
def test_a_stopped_run_keeps_the_same_models(
    stop: int, result: ramet.Result, tmp_path: Path
) -> None:
    run = RunFolder.create(tmp_path / "r", RunFolder(result.folder).experiment())
    wire = LiveClients(run.experiment(), run.clients, lives=True).wire()
    with suppress(StoppedError):
        execute(run, StoppingWire(wire, stop), lambda _: None, wire.write, seconds=0)
    assert run.summary() is None
    resumed = ramet.resume(run.path)
    assert resumed.summary.sha256 == result.summary.sha256
    assert best_models(resumed) == best_models(result)


def test_the_personal_network_is_kept(tmp_path: Path) -> None:
    result = ramet.run("ditto", "planted", rounds=3, out=tmp_path / "r", lr=0.01, **PLANTED)
    best, frame = result.summary.scores.best_val_round, result.frame
    expected = frame[(frame["round"] == best) & (frame["client"] == FIRST)]["val"].item()
    assert result.evaluation(FIRST, best=True)["val"].metrics["accuracy"] == expected


def test_without_the_model_of_the_best_round_there_is_the_last(
    result: ramet.Result, tmp_path: Path
) -> None:
    shutil.copytree(result.folder, tmp_path / "r")
    for state in (tmp_path / "r").glob("clients/*/*"):
        shutil.rmtree(state / "evaluated")
    older = ramet.resume(tmp_path / "r")
    assert older.model(FIRST)
    with pytest.raises(RametError, match=rf"{FIRST} has not kept its model of round {BEST}.*final"):
        older.model(FIRST, best=True)


def test_the_best_models_predict_and_are_exported(result: ramet.Result, tmp_path: Path) -> None:
    best, last = (result.predict(FIRST, best=chosen) for chosen in (True, False))
    chances = [name for name in best.columns if name.startswith("p_")]
    model, graph = result.model(FIRST, best=True), result.samples(FIRST).graph
    with torch.no_grad():
        expected = model(graph).softmax(dim=1).numpy()
    assert_allclose(best[chances].to_numpy(), expected, atol=1e-6)
    assert not np.allclose(last[chances].to_numpy(), expected, atol=1e-3)
    out = tmp_path / "best.csv"
    done = command("predict", result.folder, "--client", FIRST, "--best", "--out", out)
    assert done.code == 0, done.stderr
    assert_allclose(pd.read_csv(out)[chances].to_numpy(), best[chances].to_numpy(), atol=1e-9)
    exported = result.export(FIRST, tmp_path / "model", programs=False, best=True)
    card = (exported.folder / "README.md").read_text()
    assert f"weights after round {BEST}, in which validation was best" in card


def test_a_sites_own_folder_has_no_best_round(tmp_path: Path) -> None:
    with pytest.raises(RametError, match=r"does not know which round was best.*without --best"):
        Trained.open(tmp_path, best=True)
