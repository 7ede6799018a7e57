"""A coordinator runs one run at a time, also if the command that submitted it was killed."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from consortia import DeployRun, Members, consortium, kill

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
SITES = {"north": ("mass",), "south": ("mass", "charge")}


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    root = tmp_path_factory.mktemp("consortium")
    with consortium(root, SITES, method="fedstar", rounds=2, seed=3, quorum=2) as found:
        yield found


def test_of_two_commands_at_once_one_runs_and_the_other_is_refused(
    members: Members, tmp_path: Path
) -> None:
    both = [DeployRun(members, tmp_path / name) for name in ("first", "second")]
    codes = [run.process.wait(300) for run in both]
    assert sorted(codes) == [0, 2], [run.output for run in both]
    winner, loser = sorted(both, key=lambda run: run.process.returncode)
    assert (winner.out / "result.json").exists()
    assert not loser.out.exists()
    assert f"a run is in progress in {winner.out}, started " in loser.output
    assert f"ramet deploy status {members.coordinator.folder} --watch" in loser.output


def test_a_run_that_outlived_its_command_is_followed_and_no_other_is_started(
    members: Members, tmp_path: Path
) -> None:
    members.allow(rounds=200)
    members.change_settings(rounds=200)
    first = DeployRun(members, tmp_path / "first")
    _wait(lambda: len(first.rounds()) > 0, first)
    kill(psutil.Process(first.process.pid))
    first.process.wait()

    other = DeployRun(members, tmp_path / "other")
    assert other.process.wait(120) == 2, other.output
    assert f"a run is in progress in {first.out}, started " in other.output
    assert f"--out {first.out}`" in other.output
    assert not other.out.exists()

    first.start()
    _wait(lambda: first.output.count("run submitted") == 2, first)
    done = len(first.rounds())
    _wait(lambda: len(first.rounds()) > done, first)
    assert _unfinished_runs(members) == 1, "the run was followed, not submitted again"
    first.process.send_signal(signal.SIGINT)
    assert first.process.wait(120) != 0
    end = time.monotonic() + 60
    while _unfinished_runs(members):
        assert time.monotonic() < end, "Ctrl-C did not stop the run"

    other.start()
    _wait(lambda: len(other.rounds()) > 0, other)
    other.process.send_signal(signal.SIGINT)
    assert other.process.wait(120) != 0


def _unfinished_runs(members: Members) -> int:
    runs = members.coordinator.flower.flwr("ls")["runs"]
    return sum(not run["status"].startswith("finished") for run in runs)


def _wait(condition: Callable[[], bool], run: DeployRun) -> None:
    end = time.monotonic() + 180
    while not condition():
        assert run.process.poll() is None, run.output
        assert time.monotonic() < end, run.output
        time.sleep(0.2)
