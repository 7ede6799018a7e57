"""Workers of `ramet run --workers` end with the run, however it ends."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import ramet

pytestmark = pytest.mark.e2e
ROUNDS = 40


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "ramet", *map(str, arguments)]


def workers_of(pid: int) -> set[int]:
    """The processes that a process has started."""
    listed = subprocess.run(["ps", "-eo", "pid=,ppid="], capture_output=True, text=True, check=True)
    pairs = (map(int, line.split()) for line in listed.stdout.splitlines())
    return {child for child, parent in pairs if parent == pid}


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def await_(condition: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 300
    while not condition():
        assert time.monotonic() < end, what
        time.sleep(0.05)


@pytest.fixture(scope="module")
def sha256(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The SHA-256 of the run in one process."""
    out = tmp_path_factory.mktemp("one") / "r"
    return ramet.run("fedstar", "tiny", rounds=ROUNDS, out=out, workers=1).summary.sha256


@pytest.mark.parametrize(
    "sent",
    [
        signal.SIGKILL,
        pytest.param(signal.SIGINT, marks=pytest.mark.thorough),
        pytest.param(signal.SIGTERM, marks=pytest.mark.thorough),
    ],
)
def test_no_worker_outlives_a_run_that_is_stopped(
    sent: signal.Signals, sha256: str, tmp_path: Path
) -> None:
    out = tmp_path / "r"
    started = command("run", "fedstar", "--rounds", ROUNDS, "--workers", 2, "--out", out)
    with subprocess.Popen(started, stderr=subprocess.PIPE, text=True) as running:
        await_(lambda: (out / "rounds.jsonl").exists(), "no round was evaluated")
        workers = workers_of(running.pid)
        assert len(workers) == 2
        running.send_signal(sent)
        _, errors = running.communicate(timeout=300)
    assert running.returncode != 0, "the run was over before it was stopped"
    await_(lambda: not any(map(alive, workers)), f"a worker of {workers} is alive")
    assert "Traceback" not in errors
    resumed = subprocess.run(
        command("resume", out, "--workers", 2, "--json"), capture_output=True, text=True, check=True
    )
    assert json.loads(resumed.stdout)["sha256"] == sha256
    assert not (out / ".sent").exists()


def test_scripts_without_a_main_guard_can_use_workers(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "import ramet\n"
        f"result = ramet.run('fedavg', rounds=2, workers=2, out={str(tmp_path / 'r')!r})\n"
        "print(len(result.summary.sha256))\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, check=True, cwd=tmp_path
    )
    assert done.stdout.splitlines()[-1] == "64"
