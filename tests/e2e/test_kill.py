"""kill -9 at random moments, then `ramet resume`: the same numbers as without the kill."""

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

pytestmark = pytest.mark.e2e
ROUNDS = 30
KILLS = 10 if os.environ.get("RAMET_FAULTS") == "full" else 3


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "ramet", *map(str, arguments)]


def start(out: Path) -> list[str]:
    return command("run", "fedstar", "--rounds", ROUNDS, "--seed", 7, "--out", out, "--json")  # type: ignore[arg-type]


def output(arguments: list[str]) -> dict[str, Any]:
    done = subprocess.run(arguments, capture_output=True, text=True, check=True)
    result: dict[str, Any] = json.loads(done.stdout)
    return result


def recorded_rounds(out: Path) -> int:
    lines = out / "rounds.jsonl"
    return lines.read_text().count("\n") if lines.exists() else 0


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    return output(start(tmp_path_factory.mktemp("undisturbed") / "r"))


@pytest.mark.parametrize(
    "number", [0, *(pytest.param(n, marks=pytest.mark.thorough) for n in range(1, KILLS))]
)
def test_a_killed_run_ends_with_the_same_result(
    number: int, uninterrupted: dict[str, Any], tmp_path: Path
) -> None:
    out, rng = tmp_path / "r", random.Random(number)
    done, moment = rng.randrange(ROUNDS - 4), 0.1 * rng.random()  # a round takes 0.1 s
    with subprocess.Popen(start(out), stdout=subprocess.DEVNULL) as running:
        while not (out / "clients").exists() or recorded_rounds(out) < done:
            assert running.poll() is None
            time.sleep(0.005)
        time.sleep(moment)
        running.send_signal(signal.SIGKILL)
    assert running.returncode == -signal.SIGKILL, "the run was over before it was killed"
    resumed = output(command("resume", out, "--json"))
    for fact in ("sha256", "scores", "traffic", "model"):
        assert resumed[fact] == uninterrupted[fact]
    rounds = [json.loads(line)["round"] for line in (out / "rounds.jsonl").read_text().splitlines()]
    assert rounds == list(range(1, ROUNDS + 1))
    best = resumed["scores"]["best_val_round"]
    assert len([*out.glob(f"clients/*/*/evaluated/{best:06d}.safetensors")]) == 3
