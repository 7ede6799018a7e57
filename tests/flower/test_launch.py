"""Cleaning up the processes that a run leaves behind, and connecting to a Ray cluster."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

import ramet
from ramet.errors import RametError
from ramet.flower.keeping import kept_supernode
from ramet.flower.programs import Flower, _is_free, free_ports
from ramet.flower.thin_app import thin_app

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


def test_a_supernode_that_ends_is_started_again(tmp_path: Path) -> None:
    flower, (port,) = Flower(tmp_path / "home", tmp_path / "logs"), free_ports(1)
    flower.home.mkdir()

    def waits_for(supernodes: int) -> bool:
        """Whether the SuperNode is started so many times, and runs."""
        log, end = tmp_path / "logs" / "supernode-one.log", time.monotonic() + 60
        while time.monotonic() < end:
            started = log.exists() and log.read_text().count("Starting Flower SuperNode")
            if started == supernodes:
                return True
            time.sleep(0.1)
        return False

    try:
        with kept_supernode(flower, "one", port, {"client": "one"}):
            assert waits_for(1)
            flower.kill_leftovers()
            assert waits_for(2)
    finally:
        flower.kill_leftovers()
    assert waits_for(2), "not started again after the end"


def test_a_supernode_that_cannot_start_is_given_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.flower.keeping._RESTART_PAUSES", (0.0, 0.1))
    monkeypatch.setenv("PYTHONHOME", str(tmp_path))  # has no standard library
    flower, (port,) = Flower(tmp_path / "home", tmp_path / "logs"), free_ports(1)
    flower.home.mkdir()
    log = tmp_path / "logs" / "supernode-one.log"

    def keep_checking(check: Callable[[], None]) -> None:
        end = time.monotonic() + 120
        while time.monotonic() < end:
            check()
            time.sleep(0.1)

    with kept_supernode(flower, "one", port, {"client": "one"}) as check:
        with pytest.raises(RametError, match=f"one was started 3 times, and ended soon.*{log}"):
            keep_checking(check)
        assert log.read_text().count("Fatal Python error") == 3


@pytest.mark.e2e
def test_a_run_whose_supernodes_cannot_start_ends_and_names_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ramet.flower.keeping._RESTART_PAUSES", (0.0,))
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys\n"
        "if any('ramet.flower.supernode' in word for word in sys.orig_argv):\n"
        "    os._exit(3)\n"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    with pytest.raises(
        RametError, match=r"SuperNode of \w+ was started 2 times.*supernode-\w+\.log"
    ):
        ramet.run("fedstar", "tiny", rounds=1, engine="superlink", out=tmp_path / "run")


def test_the_current_folder_may_have_a_folder_named_ramet(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`flwr ls ramet` takes such a folder, for example a checkout, for an app."""
    (tmp_path / "ramet").mkdir()
    shutil.copy(thin_app() / "pyproject.toml", tmp_path / "ramet")
    monkeypatch.chdir(tmp_path)
    flower, (port,) = Flower(tmp_path / "home", tmp_path / "logs"), free_ports(1)
    try:
        with flower.superlink(port, simulated=False):
            assert flower.flwr("ls")["runs"] == []
    finally:
        flower.kill_leftovers()


def test_ports_are_free_and_not_those_of_connections() -> None:
    ports = free_ports(50)
    assert len(set(ports)) == len(ports)
    assert max(ports) < 32_768
    with socket.socket() as other:
        other.bind(("127.0.0.1", ports[0]))
        other.listen()
        assert not _is_free(ports[0])


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
