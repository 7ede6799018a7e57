"""kill -9 of a secure run at random moments, then `ramet resume`: the SHA-256 without masks."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytestmark = [pytest.mark.e2e, pytest.mark.thorough]
ROUNDS = 8
KILLS = 20 if os.environ.get("RAMET_FAULTS") == "full" else 1


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "ramet", *map(str, arguments)]


def start(out: Path, *sums: str) -> list[str]:
    return command("run", "fedstar", "--rounds", ROUNDS, "--seed", 7, "--out", out, "--json", *sums)


def output(arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


@pytest.fixture(scope="module")
def in_fixed_point(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("undisturbed") / "r"
    return output(start(folder, "--merge", "fixed-point"))


def kill(out: Path, moment: int, pause: float) -> int:
    """Start a secure run and kill it when its sites have sent a number of messages."""
    with subprocess.Popen(start(out, "--secure"), stdout=subprocess.DEVNULL) as running:
        while sum(log.read_text().count("\n") for log in out.rglob("audit.jsonl")) < moment:
            if running.poll() is not None:
                break
            time.sleep(0.002)
        time.sleep(pause)
        running.send_signal(signal.SIGKILL)
    return running.returncode


@pytest.mark.parametrize("number", range(KILLS))
def test_a_killed_secure_run_ends_with_the_same_result(
    number: int, in_fixed_point: dict[str, Any], tmp_path: Path
) -> None:
    rng = random.Random(number)
    messages = 6 + 6 * (ROUNDS + 1)  # keys and shares; in each round two messages of three sites
    code = kill(tmp_path / "r", rng.randrange(1, messages - 6), 0.05 * rng.random())
    assert code == -signal.SIGKILL, "the run was over before it was killed"
    resumed = output(command("resume", tmp_path / "r", "--json"))
    assert resumed["sha256"] == in_fixed_point["sha256"]
    expected = in_fixed_point["scores"]["test"]
    assert resumed["scores"]["test"] == pytest.approx(expected, abs=1e-6)
