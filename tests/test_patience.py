"""`patience` stops a run early, and a resumed run decides the same."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

import ramet
from command_line import ramet as command
from federations import PLANTED, wavering_run
from ramet.errors import RametError
from ramet.events import read_lines
from ramet.experiment import RunFolder
from ramet.experiment.executing import execute
from ramet.experiment.local_engine import local_wire
from ramet.studies.trial.wires import StoppedError, StoppingWire

PATIENCE = 2


@pytest.fixture(scope="module")
def result(tmp_path_factory: pytest.TempPathFactory) -> ramet.Result:
    out = tmp_path_factory.mktemp("patience") / "r"
    return wavering_run(out, 30, patience=PATIENCE)


def test_a_run_stops_after_rounds_without_a_better_score(result: ramet.Result) -> None:
    assert result.summary.stopped_early
    assert result.summary.scores.best_val_round == 4
    assert result.summary.rounds == 4 + PATIENCE + 1  # one more, to evaluate the last of them
    assert len(RunFolder(result.folder).records()) == result.summary.rounds


def test_it_is_the_run_with_that_many_rounds(result: ramet.Result, tmp_path: Path) -> None:
    rounds = result.summary.rounds
    whole = wavering_run(tmp_path / "r", rounds)
    assert whole.summary.sha256 == result.summary.sha256
    assert not whole.summary.stopped_early


def test_the_events_say_why(result: ramet.Result) -> None:
    events = read_lines(result.folder / "events.jsonl")
    (stopped,) = [event for event in events if event["event"] == "stopped early"]
    assert stopped["round"] == result.summary.rounds
    assert (stopped["best"], stopped["patience"]) == (4, PATIENCE)


@pytest.mark.parametrize("before_the_end", [-1, 0, 1])
def test_a_resumed_run_stops_at_the_same_round(
    before_the_end: int, result: ramet.Result, tmp_path: Path
) -> None:
    run = RunFolder.create(tmp_path / "r", RunFolder(result.folder).experiment())
    stop = result.summary.rounds - before_the_end
    with suppress(StoppedError):
        execute(run, StoppingWire(local_wire(run), stop), lambda _: None)
    assert run.summary() is None
    resumed = ramet.resume(run.path).summary
    assert resumed.rounds == result.summary.rounds
    assert resumed.sha256 == result.summary.sha256


def test_the_command_and_its_table(tmp_path: Path) -> None:
    out = tmp_path / "r"
    options = [f"--set={key}={value}" for key, value in {**PLANTED, "lr": 0.05}.items()]
    words = ("--setting", "planted", "--rounds", "30", "--seed", "3", "--patience", str(PATIENCE))
    done = command("run", "fedper", *words, *options, "--out", out)
    assert done.code == 0, done.stderr
    assert "stopped early" in done.stdout
    assert f"--patience {PATIENCE}" in RunFolder(out).experiment().settings.command


def test_patience_is_a_positive_number(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="patience: Input should be greater than or equal to 1"):
        ramet.run("fedstar", patience=0, out=tmp_path / "r")
