"""Real Ray, SuperLink and SuperNodes give the same numbers as the local engine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import pytest

import ramet
from federations import PLANTED
from ramet.engine.chain_audit import compare
from ramet.engine.store.client_state import model_arrays
from ramet.flower.chain_copies import chain_copies
from ramet.payload import digest

pytestmark = pytest.mark.e2e
ROUNDS = 5


@lru_cache
def locally(method: str, folder: str) -> ramet.Result:
    return ramet.run(method, "tiny", rounds=ROUNDS, seed=3, out=Path(folder) / method)


@pytest.fixture(scope="session")
def local_runs(tmp_path_factory: pytest.TempPathFactory) -> str:
    return str(tmp_path_factory.mktemp("local"))


@pytest.mark.parametrize("method", ["fedstar", pytest.param("fedavg", marks=pytest.mark.thorough)])
@pytest.mark.parametrize("engine", ["ray", "superlink"])
def test_engines_agree_to_the_last_bit(
    engine: Literal["ray", "superlink"], method: str, local_runs: str, tmp_path: Path
) -> None:
    expected = locally(method, local_runs)
    out = tmp_path / "r"
    result = ramet.run(
        method, "tiny", rounds=ROUNDS, seed=3, engine=engine, out=out, track=["tensorboard"]
    )
    for fact in ("sha256", "scores", "traffic", "model"):
        assert getattr(result.summary, fact) == getattr(expected.summary, fact)
    ours, theirs = result.frame, expected.frame
    assert ours.equals(theirs)
    for client in expected.summary.scores.clients:
        models = (model_arrays(run.model(client, best=True)) for run in (result, expected))
        assert len({digest(arrays) for arrays in models}) == 1
    assert tracked(out, "test") == pytest.approx(theirs.groupby("round")["test"].mean().to_dict())
    assert not processes_of(out)


def tracked(folder: Path, name: str) -> dict[int, float]:
    """A metric that TensorBoard has of a run, by round."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return {event.step: event.value for event in events.Scalars(name)}


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["ray", "superlink"])
def test_engines_agree_on_nodes_and_latent_link_kinds(
    engine: Literal["ray", "superlink"], tmp_path: Path
) -> None:
    """Clustering, channels in client-specific order, and the evaluation of all data at once."""

    def run(engine: Literal["local", "ray", "superlink"]) -> ramet.Result:
        return ramet.run(
            *("fedlit", "planted"),
            rounds=2,
            engine=engine,
            out=tmp_path / engine,
            partition="balanced",
            clients=2,
            nodes=200,
            links=150,
        )

    expected, result = run("local"), run(engine)
    for fact in ("sha256", "scores", "traffic", "model"):
        assert getattr(result.summary, fact) == getattr(expected.summary, fact)
    assert expected.summary.scores.overview["test"] > 0
    assert result.frame.equals(expected.frame)


OF_THE_FIELD: dict[str, dict[str, Any]] = {
    "fedgcn": {},
    "fedgta": {},
    "fedpub": {},
    "fgssl": {},
    "fedtad": {},
    "fedtgp": {},
    "fedspray": {},
    "o-pfgl": {},
    "fedssp": {"hidden": 4},
    "adafgl": {"shared_rounds": 1, "personal_epochs": 1},
}


@pytest.mark.thorough
@pytest.mark.parametrize("method", OF_THE_FIELD)
@pytest.mark.parametrize("engine", ["ray", "superlink"])
def test_engines_agree_on_methods_of_the_field(
    engine: Literal["ray", "superlink"], method: str, tmp_path: Path
) -> None:
    """Means for each client, random views, training at the server, stages, spectra and phases."""
    setting, data = ("tiny", {}) if method == "fedssp" else ("planted", PLANTED)
    options = {**data, **OF_THE_FIELD[method]}
    expected, result = (
        ramet.run(method, setting, rounds=2, engine=one, out=tmp_path / one, **options)
        for one in ("local", engine)
    )
    for fact in ("sha256", "scores", "sent", "model"):
        assert getattr(result.summary, fact) == getattr(expected.summary, fact)
    assert result.frame.equals(expected.frame)


@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["ray", "superlink"])
def test_engines_agree_on_partial_requests(
    engine: Literal["ray", "superlink"], tmp_path: Path
) -> None:
    """Partial requests and replies, link prediction, and the random draws of Explore."""

    def run(engine: Literal["local", "ray", "superlink"]) -> ramet.Result:
        return ramet.run(
            *("fedda", "planted-hetero"),
            rounds=3,
            engine=engine,
            out=tmp_path / engine,
            activation="explore,alpha=0.7",
            clients=3,
            nodes=60,
            links=200,
            hidden=8,
        )

    expected, result = run("local"), run(engine)
    for fact in ("sha256", "scores", "sent", "model"):
        assert getattr(result.summary, fact) == getattr(expected.summary, fact)
    assert expected.summary.sent is not None
    assert expected.summary.sent.tensors.up < expected.summary.sent.tensors.down
    assert result.frame.equals(expected.frame)


def processes_of(folder: Path) -> list[int]:
    """Ids of live processes with the Flower home of this run."""
    variable = f"FLWR_HOME={(folder / 'flower-home.txt').read_text()}\0".encode()
    pids = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if variable in (process / "environ").read_bytes():
                pids.append(int(process.name))
        except OSError:
            continue
    return pids


def kill_after_two_rounds(out: Path, *words: str) -> None:
    """Kill a run over Ray with signal 9 when two rounds are committed."""
    command = [sys.executable, "-m", "ramet", "run", *words, "--engine", "ray", "--out", str(out)]
    with subprocess.Popen(command, start_new_session=True) as running:
        lines = out / "rounds.jsonl"
        end = time.monotonic() + 300
        while not (lines.exists() and lines.read_text().count("\n") >= 2):
            assert time.monotonic() < end, "fewer than two rounds in five minutes"
            assert running.poll() is None
            time.sleep(0.05)
        os.kill(running.pid, signal.SIGKILL)
    assert not (out / "result.json").exists(), "the run had finished before it was killed"


@pytest.mark.thorough
@pytest.mark.parametrize("task", ["node-regression", "node-multilabel", "edge-classification"])
def test_every_way_of_running_agrees_on_a_task(task: str, tmp_path: Path) -> None:
    """Worker processes, Ray, a SuperLink, and a run that was killed and resumed."""
    given: dict[str, Any] = {"rounds": ROUNDS, "seed": 3, "predicts": task}
    ways: dict[str, dict[str, Any]] = {
        "local": {},
        "workers": {"workers": 2},
        "ray": {"engine": "ray"},
        "superlink": {"engine": "superlink"},
    }
    results = {
        way: ramet.run("fedavg", "planted-targets", out=tmp_path / way, **given, **how)
        for way, how in ways.items()
    }
    expected = results["local"]
    for result in results.values():
        for fact in ("sha256", "scores", "traffic", "model"):
            assert getattr(result.summary, fact) == getattr(expected.summary, fact)
        assert result.frame.equals(expected.frame)
    out, longer = tmp_path / "killed", {**given, "rounds": 60}
    words = ("--setting", "planted-targets", "--set", f"predicts={task}", "--seed", "3")
    kill_after_two_rounds(out, "fedavg", *words, "--rounds", "60")
    whole = ramet.run("fedavg", "planted-targets", out=tmp_path / "whole", **longer)
    assert ramet.resume(out).summary.sha256 == whole.summary.sha256


@pytest.mark.thorough
def test_a_killed_run_over_ray_resumes(local_runs: str, tmp_path: Path) -> None:
    """kill -9 of the command leaves Flower's processes behind; `resume` kills them first."""
    out = tmp_path / "r"
    kill_after_two_rounds(out, "fedstar", "--rounds", str(ROUNDS), "--seed", "3")
    result = ramet.resume(out)
    assert result.summary.sha256 == locally("fedstar", local_runs).summary.sha256
    assert not processes_of(out)


@pytest.mark.thorough
@pytest.mark.parametrize("secure", [False, True], ids=["in the clear", "secure sums"])
@pytest.mark.parametrize("engine", ["ray", "superlink"])
def test_verified_runs_agree_to_the_last_bit(
    engine: Literal["ray", "superlink"], secure: bool, tmp_path: Path
) -> None:
    """And all copies of the chain are whole."""
    given: dict[str, Any] = {"rounds": 2, "seed": 3, "secure": secure}
    local, remote = (
        ramet.run("fedstar", "tiny", engine=one, out=tmp_path / one, verified=True, **given)
        for one in ("local", engine)
    )
    plain = ramet.run("fedstar", "tiny", out=tmp_path / "plain", **given)
    assert remote.summary.sha256 == local.summary.sha256 == plain.summary.sha256
    assert remote.summary.scores == local.summary.scores == plain.summary.scores
    for result in (local, remote):
        found = [*compare(chain_copies([result.folder]))]
        assert {finding.state for finding in found} == {"whole"}
        assert len(found) == len(result.summary.scores.clients) + 1
