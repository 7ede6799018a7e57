"""Programs that a party finds by their pid files."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ramet.deploy.services import Service


@contextmanager
def sleeping(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    process = subprocess.Popen(["sleep", "60"], cwd=folder, start_new_session=True)
    try:
        yield process
    finally:
        process.kill()
        process.wait()


@pytest.fixture
def service(tmp_path: Path) -> Service:
    (tmp_path / "side").mkdir()
    return Service(tmp_path / "side", "proxy", "A proxy", ("sleep", "60"))


def test_a_restored_pid_file_does_not_end_another_program(service: Service, tmp_path: Path) -> None:
    """Pid files survive reboots and come along with backups."""
    with sleeping(tmp_path) as other, sleeping(service.folder) as orphan:
        for process in (other, orphan):
            (service.folder / "proxy.pid").write_text(f"{process.pid} 1.0")
            service.kill_orphans()
        assert other.poll() is None
        assert orphan.poll() is not None


def test_an_empty_pid_file_is_ignored(service: Service, tmp_path: Path) -> None:
    (service.folder / "proxy.pid").touch()
    with sleeping(service.folder) as other:
        service.kill_orphans()
        assert other.poll() is None
    assert service.process() is None


def test_the_script_is_valid_and_keeps_loopback_off_the_proxy(service: Service) -> None:
    service.script.write_text(service.script_text().replace("exec sleep 60", 'echo "$no_proxy"'))
    for given in ({}, {"NO_PROXY": "example.org"}, {"no_proxy": "example.org"}):
        done = subprocess.run(
            ["/bin/sh", str(service.script)],
            env={"PATH": "/usr/bin:/bin", **given},
            capture_output=True,
            text=True,
            check=True,
        )
        assert done.stdout.strip() == ",".join(["127.0.0.1", *given.values()]) + "," * (not given)
