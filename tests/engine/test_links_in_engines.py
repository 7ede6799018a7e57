"""What links carry gives the same numbers in every engine, and after a kill."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any, Literal

import pytest

import ramet
from planted_links import AMOUNTS, net_amounts

LINKS = f'{AMOUNTS}\nweight = "amount"'
ROUNDS = 12


def sites(folder: Path) -> list[str]:
    return [
        str(net_amounts(folder / f"bank-{n}", LINKS, n, accounts=60, transfers=200)) for n in (1, 2)
    ]


def run(folder: Path, tomls: list[str], network: str, **more: Any) -> ramet.Result:
    given: dict[str, Any] = {"sites": tomls, "rounds": 2, "seed": 3, "hidden": 8, **more}
    return ramet.run("fedavg", "own", network=network, out=folder, **given)


@pytest.mark.parametrize("network", ["gine", "gatv2", "dir-sage", "gcn"])
def test_workers_give_the_numbers_of_one_process(network: str, tmp_path: Path) -> None:
    tomls = sites(tmp_path)
    local = run(tmp_path / "local", tomls, network)
    workers = run(tmp_path / "workers", tomls, network, workers=2)
    for fact in ("sha256", "scores", "traffic", "model"):
        assert getattr(workers.summary, fact) == getattr(local.summary, fact)


def test_a_killed_run_ends_with_the_same_numbers(tmp_path: Path) -> None:
    tomls = sites(tmp_path)
    expected = run(tmp_path / "undisturbed", tomls, "gine", rounds=ROUNDS).summary
    out = tmp_path / "killed"
    options = [*(word for toml in tomls for word in ("--site", toml)), "--seed", "3"]
    options += [
        "--network",
        "gine",
        "--rounds",
        str(ROUNDS),
        "--set",
        "hidden=8",
        "--out",
        str(out),
    ]
    command = [sys.executable, "-m", "ramet", "run", "fedavg", *options]
    lines = out / "rounds.jsonl"
    with subprocess.Popen(command, stdout=subprocess.DEVNULL) as running:
        while not lines.exists() or lines.read_text().count("\n") < 2:
            assert running.poll() is None
            time.sleep(0.002)
        running.send_signal(signal.SIGKILL)
    assert running.returncode == -signal.SIGKILL, "the run was over before it was killed"
    command = [sys.executable, "-m", "ramet", "resume", str(out), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["sha256"] == expected.sha256


@pytest.mark.e2e
@pytest.mark.thorough
@pytest.mark.parametrize("engine", ["ray", "superlink"])
def test_flower_gives_the_same_numbers(engine: Literal["ray", "superlink"], tmp_path: Path) -> None:
    tomls = sites(tmp_path)
    local = run(tmp_path / "local", tomls, "gine")
    flower = run(tmp_path / engine, tomls, "gine", engine=engine)
    for fact in ("sha256", "scores", "traffic", "model"):
        assert getattr(flower.summary, fact) == getattr(local.summary, fact)
