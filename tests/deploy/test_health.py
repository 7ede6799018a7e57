"""A service works if it does its work; a running process is not enough."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest
from typer.testing import CliRunner

from own_sites import CONSORTIUM_TOML
from ramet.cli.main import app
from ramet.deploy.alive import HEARTBEAT, describe, is_recent, last_heartbeat
from ramet.deploy.health import check_services
from ramet.deploy.init import init
from ramet.deploy.services import Service
from ramet.deploy.site import Site, join
from ramet.deploy.snapshot import Monitor
from ramet.deploy.status import status_lines


@pytest.fixture
def site(tmp_path: Path) -> Site:
    (tmp_path / "consortium.toml").write_text(CONSORTIUM_TOML)
    coordinator = init(tmp_path / "consortium.toml", tmp_path / "three", lambda _: None)
    invitation = coordinator.folder / "invitations" / "rings.toml"
    return join(invitation, tmp_path, tmp_path / "rings", 9094, lambda _: None)[0]


def _hear(site: Site, when: float) -> None:
    (site.folder / HEARTBEAT).touch()
    os.utime(site.folder / HEARTBEAT, (when, when))


@pytest.fixture
def now(monkeypatch: pytest.MonkeyPatch) -> float:
    """The time, which stands still."""
    moment = time.time()
    monkeypatch.setattr(time, "time", lambda: moment)
    return moment


def test_a_heartbeat_is_recent_for_a_minute(now: float, tmp_path: Path) -> None:
    assert last_heartbeat(tmp_path) is None
    assert not is_recent(None)
    assert not is_recent(0.0)
    assert is_recent(now - 55)
    assert not is_recent(now - 61)
    assert is_recent(now + 5)  # the clock was set back a little
    assert not is_recent(now + 3600)
    assert describe(None) == "the SuperNode is not running"
    assert describe(0.0) == "no heartbeat accepted since the SuperNode started"
    assert describe(now - 2.1) == "last heartbeat accepted 2 s ago"
    old = datetime(2026, 11, 16, 12, 30, tzinfo=UTC).timestamp()
    assert describe(old) == "no heartbeat accepted since 2026-11-16 12:30:00 UTC"


def test_a_supernode_without_heartbeat_is_down_everywhere(site: Site, now: float) -> None:
    assert check_services(site) == {}
    _hear(site, now - 100)
    check = check_services(site)["supernode"]
    assert not check.ok
    assert check.detail.startswith("no heartbeat accepted since ")
    result = CliRunner().invoke(app, ["deploy", "alive", str(site.folder)])
    assert result.exit_code == 1
    assert check.detail in result.output
    _hear(site, now)
    assert check_services(site)["supernode"].ok
    result = CliRunner().invoke(app, ["deploy", "alive", str(site.folder)])
    assert (result.exit_code, result.output) == (
        0,
        "supernode: last heartbeat accepted 0 s ago\n",
    )


def test_nothing_is_alive_before_it_is_started(site: Site) -> None:
    result = CliRunner().invoke(app, ["deploy", "alive", str(site.folder)])
    assert (result.exit_code, result.output) == (1, "nothing was started\n")


def test_status_reports_a_running_supernode_without_heartbeat(site: Site) -> None:
    node = site.services()[0]
    node.script.write_text("#!/bin/sh\nexec sleep 600\n")
    assert node.start()
    try:
        _hear(site, 0.0)
        line = status_lines(Monitor(site).facts())[0]
        assert line.startswith("supernode: running, process ")
        assert line.endswith(", but no heartbeat accepted since the SuperNode started")
    finally:
        node.stop()


@pytest.mark.thorough
def test_a_service_whose_program_ended_is_down(site: Site) -> None:
    executor: Service = site.services()[1]
    executor.script.write_text("#!/bin/sh\nexit 1\n")
    executor.start()
    try:
        end = time.monotonic() + 30
        while (found := check_services(site)["superexec"]).ok:
            assert time.monotonic() < end
        assert found.detail == "not running"
    finally:
        executor.stop()


def test_the_quick_check_imports_only_the_standard_library(site: Site) -> None:
    _hear(site, time.time())
    code = (
        "import runpy, sys\n"
        f"sys.argv = ['alive', {str(site.folder)!r}]\n"
        "try: runpy.run_module('ramet.deploy.alive', run_name='__main__')\n"
        "finally: print(*{name.partition('.')[0] for name in sys.modules}, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert done.stdout.startswith("last heartbeat accepted")
    assert not {"psutil", "pydantic", "flwr", "torch", "typer"} & {*done.stderr.split()}
