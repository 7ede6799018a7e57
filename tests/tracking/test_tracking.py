"""What each tracker has stored at the end of a run, with the real packages."""

from __future__ import annotations

import json
import struct
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

import ramet
from ramet.cli.main import main
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.metrics import Record, Summary
from ramet.tracking import Tracking, TrackingWarning, trackers
from ramet.tracking.tracker import TrackedRun, Tracker, metrics_of

ROUNDS = 4
Points = dict[str, list[tuple[int, float]]]


@pytest.fixture(autouse=True)
def _offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("MLFLOW_TRACKING_URI", f"sqlite:///{tmp_path}/mlflow.db")
    monkeypatch.setenv("MLFLOW_DISABLE_TELEMETRY", "true")
    monkeypatch.setenv("WANDB_MODE", "offline")
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run without trackers."""
    folder = tmp_path_factory.mktemp("runs") / "star"
    return ramet.run("fedstar", "tiny", rounds=ROUNDS, out=folder).folder


def _stopped_copy(done: Path, to: Path, after: int) -> RunFolder:
    """The run as it was after this many rounds."""
    to.mkdir()
    for name in ("settings.json", "versions.json", "split.json"):
        (to / name).write_text((done / name).read_text())
    lines = (done / "rounds.jsonl").read_text().splitlines(keepends=True)
    (to / "rounds.jsonl").write_text("".join(lines[:after]))
    return RunFolder(to)


def _track_in_two_sessions(name: str, done: Path, to: Path) -> RunFolder:
    """Stop after round 2, which is observed again by the second session, and run to the end."""
    records = RunFolder(done).records()
    folder = _stopped_copy(done, to, 0)
    for first, last in ((1, 2), (2, ROUNDS)):
        tracking = Tracking(folder, [name] if first == 1 else [])
        tracking.start()
        for record in records[first - 1 : last]:
            _append(folder, record)
            tracking.observe(record)
        if last == ROUNDS:
            (to / "result.json").write_text((done / "result.json").read_text())
        tracking.close()
        assert not tracking.failures
    return folder


def _append(folder: RunFolder, record: Record) -> None:
    if record.round > folder.rounds_done():
        with (folder.path / "rounds.jsonl").open("a") as file:
            file.write(record.line() + "\n")


def _expected(done: Path, name: str) -> list[tuple[int, Any]]:
    return [
        (record.round, pytest.approx(metrics_of(record)[name], rel=1e-6))
        for record in RunFolder(done).records()
    ]


NAMES = ("test", "val", "loss", "bytes/up", "bytes/down", "seconds", "client/rings/test")


def test_the_metrics_of_a_round(done: Path) -> None:
    record = RunFolder(done).records()[-1]
    metrics = metrics_of(record)
    assert metrics["test"] == pytest.approx(record.mean("test"))
    assert metrics["bytes/up"] == 3 * 58_368 == metrics["bytes/down"]
    assert metrics["seconds"] == record.seconds > 0
    assert metrics["client/trees/val"] == record.evaluated["trees"]["val"]
    assert metrics["clients/failed"] == 0
    assert set(NAMES) <= metrics.keys()
    empty = replace(record, evaluated={}, trained={}, failed={"rings": "is away"})
    assert metrics_of(empty)["clients/failed"] == 1
    assert "test" not in metrics_of(empty)


class TestTensorBoard:
    def _points(self, folder: Path) -> Points:
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(folder / "tensorboard"))
        events.Reload()
        assert events.Tags()["tensors"] == ["settings/text_summary", "sha256/text_summary"]
        return {
            tag: [(event.step, event.value) for event in events.Scalars(tag)]
            for tag in events.Tags()["scalars"]
        }

    def test_each_point_is_logged_once_over_two_sessions(self, done: Path, tmp_path: Path) -> None:
        folder = _track_in_two_sessions("tensorboard", done, tmp_path / "r")
        points = self._points(folder.path)
        assert {name: points[name] for name in NAMES} == {n: _expected(done, n) for n in NAMES}

    def test_from_the_command_line(self, tmp_path: Path) -> None:
        words = ["run", "fedavg", "--rounds", "2", "--out", str(tmp_path / "r")]
        assert _ramet(*words, "--track", "tensorboard") == 0
        assert [step for step, _ in self._points(tmp_path / "r")["test"]] == [1, 2]


class TestMLflow:
    def test_one_run_has_each_point_once(self, done: Path, tmp_path: Path) -> None:
        from mlflow import MlflowClient

        folder = _track_in_two_sessions("mlflow", done, tmp_path / "r")
        client = MlflowClient()
        experiment = client.get_experiment_by_name("ramet")
        assert experiment is not None
        (run,) = client.search_runs([experiment.experiment_id])
        assert run.info.status == "FINISHED"
        assert run.data.params["method"] == "fedstar"
        assert run.data.params["command"].startswith("ramet run fedstar --setting tiny")
        assert "data" not in run.data.params
        assert run.data.tags["ramet.run"] == folder.run_name
        summary = folder.summary()
        assert summary is not None
        assert run.data.tags["ramet.sha256"] == summary.sha256
        assert run.data.metrics["test_at_best_val"] == summary.scores.test_at_best_val
        for name in NAMES:
            history = client.get_metric_history(run.info.run_id, name)
            points = sorted((metric.step, metric.value) for metric in history)
            assert points == _expected(done, name)


class TestWeightsAndBiases:
    def test_offline_files_have_every_round_under_one_id(self, done: Path, tmp_path: Path) -> None:
        import wandb

        folder = _track_in_two_sessions("wandb", done, tmp_path / "r")
        wandb.teardown()  # waits for the process that writes the files
        sessions = sorted(folder.path.glob("wandb/offline-run-*/run-*.wandb"))
        assert {path.stem for path in sessions} == {f"run-{folder.run_name}"}
        first, second = (_wandb_points(path) for path in sessions)
        assert [step for step, _ in first["test"]] == [1, 2]
        assert {name: second[name] for name in NAMES} == {n: _expected(done, n) for n in NAMES}


def _wandb_points(path: Path) -> Points:
    """The history in an offline file, which is a log of protobuf messages in blocks of 32 KB."""
    from wandb.proto import wandb_internal_pb2

    message_of: Any = wandb_internal_pb2  # its classes are created on import
    points: Points = {}
    for content in _wandb_log(path.read_bytes()):
        message = message_of.Record()
        message.ParseFromString(content)
        row = {
            item.key or ".".join(item.nested_key): json.loads(item.value_json)
            for item in message.history.item
        }
        for name, value in row.items():
            points.setdefault(name, []).append((int(row["_step"]), value))
    return points


def _wandb_log(content: bytes, block: int = 32_768) -> Iterator[bytes]:
    assert content[:4] == b":W&B"
    offset, message = 7, b""
    while offset + 7 <= len(content):
        left = block - offset % block
        if left < 7:
            offset += left
            continue
        length, kind = struct.unpack("<HB", content[offset + 4 : offset + 7])
        message += content[offset + 7 : offset + 7 + length]
        offset += 7 + length
        if kind in (1, 4):  # complete, or the last part
            yield message
            message = b""


class _Failing(Tracker):
    """Fails like a tracker whose server goes down."""

    last = 0
    logged: list[int]

    def __init__(self, run: TrackedRun) -> None:
        type(self).logged = []

    def log_round(self, number: int, metrics: Mapping[str, float]) -> None:
        if number == 2:
            raise ConnectionError("the server is gone")
        self.logged.append(number)

    def close(self, summary: Summary | None) -> None:
        raise AssertionError("a tracker that has failed is not closed")


def _ramet(*words: str) -> int:
    with patch.object(sys, "argv", ["ramet", *words]):
        try:
            main()
        except SystemExit as stop:
            return int(stop.code or 0)
    return 0


class TestFailures:
    def test_a_failing_tracker_is_reported_and_the_run_continues(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(trackers, "_class_of", lambda name: _Failing)
        with pytest.warns(TrackingWarning, match=r"tensorboard no longer .* the server is gone\."):
            result = ramet.run("local", "tiny", rounds=3, out=tmp_path / "r", track=["tensorboard"])
        assert result.untracked == {"tensorboard": "the server is gone."}
        assert result.summary.rounds == 3
        assert _Failing.logged == [1]

    def test_on_the_command_line_the_exit_code_is_1(
        self,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr(trackers, "_class_of", lambda name: _Failing)
        out = tmp_path / "r"
        words = ["run", "local", "--rounds", "3", "--out", str(out), "--json"]
        assert _ramet(*words, "--track", "wandb") == 1
        printed = capsys.readouterr()
        assert json.loads(printed.out)["rounds"] == 3
        warning, *_, last = (line for line in printed.err.splitlines() if "wandb" in line)
        assert "no longer tracks the run, which continues: the server is gone." in warning
        assert f"`ramet resume {out} --track wandb`" in last
        monkeypatch.undo()
        monkeypatch.setattr(trackers, "_class_of", lambda name: _Recording)
        assert _ramet("resume", str(out), "--track", "wandb") == 0
        assert _Recording.logged == [1, 2, 3]

    def test_a_tracker_that_cannot_be_opened_stops_the_run_before_it_starts(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("MLFLOW_TRACKING_URI", f"file://{tmp_path}/mlruns")
        with pytest.raises(RametError, match=r"mlflow cannot track the run: .*maintenance"):
            ramet.run("local", "tiny", rounds=1, out=tmp_path / "r", track=["mlflow"])
        assert not RunFolder(tmp_path / "r").records()
        assert not RunFolder(tmp_path / "r").trackers()
        assert ramet.resume(tmp_path / "r").summary.rounds == 1

    def test_unknown_and_uninstalled_trackers_are_refused(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with pytest.raises(RametError, match="Did you mean 'mlflow'"):
            ramet.run("local", "tiny", out=tmp_path / "r", track=["mlfow"])
        monkeypatch.setattr(trackers, "find_spec", lambda name: None)
        with pytest.raises(RametError, match=r"pip install 'ramet\[wandb\]'"):
            ramet.run("local", "tiny", out=tmp_path / "r", track=["wandb"])
        assert not (tmp_path / "r").exists()


class _Recording(_Failing):
    def log_round(self, number: int, metrics: Mapping[str, float]) -> None:
        self.logged.append(number)

    def close(self, summary: Summary | None) -> None:
        assert summary is not None


def test_rounds_missed_by_the_observer_are_logged_later(
    done: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server continues for a while after the process that observes it is killed."""
    monkeypatch.setattr(trackers, "_class_of", lambda name: _Recording)
    folder = _stopped_copy(done, tmp_path / "r", 1)
    records = RunFolder(done).records()
    tracking = Tracking(folder, ["mlflow"])
    tracking.observe(records[0])
    for record in records:
        _append(folder, record)
    tracking.observe(records[3])
    assert _Recording.logged == [1, 2, 3, 4]
