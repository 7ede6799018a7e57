"""Cleaning up the processes that a run leaves behind, and connecting to a Ray cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import ramet
from ramet.errors import RametError
from ramet.flower.programs import Flower, free_ports

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


def test_an_address_without_a_cluster_is_an_error(tmp_path: Path) -> None:
    (port,) = free_ports(1)
    with pytest.raises(RametError, match=f"no Ray cluster answers at 127.0.0.1:{port}"):
        ramet.run(engine="ray", ray_address=f"127.0.0.1:{port}", out=tmp_path / "run")


@pytest.mark.parametrize("address", ["auto", "6379", "ray://10.0.0.1:10001", "10.0.0.1:port"])
def test_an_address_has_a_host_and_a_port(address: str, tmp_path: Path) -> None:
    with pytest.raises(RametError, match="is not the address of a Ray cluster"):
        ramet.run(engine="ray", ray_address=address, out=tmp_path / "run")


def test_only_the_engine_ray_takes_an_address(tmp_path: Path) -> None:
    with pytest.raises(RametError, match="the engine local does not use Ray"):
        ramet.run(ray_address="10.0.0.1:6379", out=tmp_path / "run")


def test_the_address_of_another_cluster_is_not_inherited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.9:6379")
    assert "RAY_ADDRESS" not in Flower(tmp_path, tmp_path).environment
    named = Flower(tmp_path, tmp_path, ray="10.0.0.1:6379").environment
    assert named["RAY_ADDRESS"] == "10.0.0.1:6379"
