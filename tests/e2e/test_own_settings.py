"""Settings from a file, and PyG objects: the same numbers in all engines and after kill -9."""

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
from own_settings import documented, molecules, shapes

pytestmark = pytest.mark.e2e
GRAPHS = {name: molecules(seed) for seed, name in enumerate(("a", "b", "c"))}


@pytest.mark.parametrize("engine", ["ray", "superlink"])
@pytest.mark.parametrize("given", ["shops", pytest.param("graphs", marks=pytest.mark.thorough)])
def test_other_engines_have_the_same_data(
    engine: Literal["ray", "superlink"], given: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAMET_DATA", str(tmp_path / "data"))
    options: dict[str, Any] = {"setting": documented(tmp_path)}
    if given == "graphs":
        options = {"clients": GRAPHS, "split": 0.2}
    runs = [
        ramet.run("fedavg", **options, rounds=3, engine=one, out=tmp_path / one)
        for one in ("local", engine)
    ]
    assert runs[0].summary.sha256 == runs[1].summary.sha256
    assert runs[0].frame.equals(runs[1].frame)


def test_a_killed_run_ends_with_the_same_result(tmp_path: Path) -> None:
    name, out = shapes(tmp_path), tmp_path / "killed"
    words = [sys.executable, "-m", "ramet", "run", "fedavg", "--setting", name, "--rounds", "40"]
    expected = ramet.run("fedavg", name, rounds=40, out=tmp_path / "whole").summary.sha256
    with subprocess.Popen([*words, "--out", out], stdout=subprocess.DEVNULL) as running:
        while not (out / "rounds.jsonl").exists():
            assert running.poll() is None
            time.sleep(0.005)
        running.send_signal(signal.SIGKILL)
    assert not (out / "result.json").exists(), "the run was over before it was killed"
    done = subprocess.run(
        [sys.executable, "-m", "ramet", "resume", out, "--json"], capture_output=True, check=True
    )
    assert json.loads(done.stdout)["sha256"] == expected
