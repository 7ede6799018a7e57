"""Cleaning up the processes that a run leaves behind."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from ramet.flower.programs import Flower

_HOLDS_MEMORY = "held = bytearray(400_000_000); print(flush=True); import time; time.sleep(60)"


@pytest.mark.skipif(not Path("/proc").exists(), reason="processes are found through /proc")
def test_kill_leftovers_returns_when_the_processes_are_gone(tmp_path: Path) -> None:
    """A killed process takes longer to exit the more memory it has."""
    flower = Flower(tmp_path, tmp_path / "logs")
    environment = {**os.environ, "FLWR_HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", _HOLDS_MEMORY], env=environment, stdout=subprocess.PIPE
    ) as leftover:
        assert leftover.stdout is not None
        leftover.stdout.readline()
        assert flower.processes() == [leftover.pid]
        flower.kill_leftovers()
        assert flower.processes() == []
        assert leftover.wait() == -9
