"""Rotation of coordinator and sites' logs by the real logrotate, while the programs write them."""

from __future__ import annotations

import shutil
import ssl
import subprocess
import time
from http.client import HTTPSConnection
from logging import INFO
from pathlib import Path

import psutil
import pytest
import tomli_w

from ramet.deploy.coordinator import Coordinator
from ramet.deploy.init import init
from ramet.deploy.party import Party
from ramet.deploy.services import SYSTEM_PROGRAMS, Service
from ramet.deploy.site import Site, join
from ramet.events import events_written_to, log_event, read_lines
from ramet.flower.programs import free_ports

LOGROTATE = shutil.which("logrotate", path=":".join(["/usr/bin", *SYSTEM_PROGRAMS]))
pytestmark = pytest.mark.skipif(LOGROTATE is None, reason="logrotate is not installed")


@pytest.fixture
def coordinator(tmp_path: Path) -> Coordinator:
    port, link_port = free_ports(2)
    settings = {"name": "three", "address": "localhost", "listen": "127.0.0.1", "port": port}
    settings |= {"link_port": link_port, "sites": ["rings", "trees", "blocks"]}
    settings |= {"method": "fedstar", "setting": "tiny"}
    (tmp_path / "consortium.toml").write_text(tomli_w.dumps(settings))
    return init(tmp_path / "consortium.toml", tmp_path / "a folder", lambda _: None)


@pytest.fixture
def site(coordinator: Coordinator, tmp_path: Path) -> Site:
    invitation = coordinator.folder / "invitations" / "rings.toml"
    return join(invitation, tmp_path, tmp_path / "rings", 9094, lambda _: None)[0]


def rotate(party: Party) -> None:
    assert LOGROTATE
    state = party.folder / "logrotate.state"
    words = [LOGROTATE, "--force", "--state", str(state), str(party.folder / "logrotate.conf")]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")


def call(coordinator: Coordinator, path: str) -> int:
    context = ssl.create_default_context(cafile=coordinator.authority)
    connection = HTTPSConnection(
        "localhost", coordinator.consortium.port, timeout=60, context=context
    )
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    finally:
        connection.close()


@pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed")
def test_nginx_goes_on_in_the_emptied_access_log(coordinator: Coordinator) -> None:
    (proxy,) = [service for service in coordinator.services() if service.name == "proxy"]
    log = coordinator.folder / "logs" / "access.log"
    assert proxy.start()
    try:
        _wait_for(coordinator.folder / "proxy.nginx.pid")
        assert call(coordinator, "/before") == 400  # no client certificate
        _wait_for_line(log)
        rotate(coordinator)
        assert (log.parent / "access.log.1.gz").exists()
        assert call(coordinator, "/after") == 400
        _wait_for_line(log)
        (line,) = log.read_text().splitlines()
        assert '"GET /after HTTP/1.1" 400' in line
    finally:
        assert proxy.stop()


def test_programs_that_keep_their_log_open_append_to_the_emptied_file(site: Site) -> None:
    log = site.folder / "logs" / "supernode.log"
    script = "import sys\nfor line in sys.stdin: print(line, end='', flush=True)"
    with log.open("ab") as file:
        program = psutil.Popen(
            ["python3", "-c", script], stdin=subprocess.PIPE, stdout=file, text=True
        )
    try:
        _print(program, log, "before\n")
        rotate(site)
        _print(program, log, "after\n")
        assert log.read_bytes() == b"after\n", "a hole where the old lines were"
        assert (log.parent / "supernode.log.1.gz").exists()
    finally:
        program.kill()
        program.wait()


def test_events_continue_in_a_new_file(site: Site) -> None:
    with events_written_to(site.events):
        log_event(INFO, "before")
        rotate(site)
        log_event(INFO, "after")
    assert [event["event"] for event in read_lines(site.events)] == ["after"]


def test_the_coordinators_events_and_audit_logs_stay(coordinator: Coordinator, site: Site) -> None:
    audit = site.folder / "state" / "audit.jsonl"
    audit.write_text("{}\n")
    with events_written_to(coordinator.events):
        log_event(INFO, "run submitted")
    for party in (coordinator, site):
        rotate(party)
    assert read_lines(coordinator.events)[0]["event"] == "run submitted"
    assert audit.read_text() == "{}\n"


def test_every_service_has_its_log_rotated(coordinator: Coordinator, site: Site) -> None:
    for party in (coordinator, site):
        services: tuple[Service, ...] = tuple(party.services())
        text = (party.folder / "logrotate.conf").read_text()
        assert all(f'"{service.log}"' in text for service in services)


def _print(program: psutil.Popen, log: Path, line: str) -> None:
    program.stdin.write(line)
    program.stdin.flush()
    end = time.monotonic() + 20
    while not (log.exists() and log.read_bytes().endswith(line.encode())):
        assert time.monotonic() < end
        time.sleep(0.02)


def _wait_for_line(log: Path) -> None:
    """nginx logs a request after its response is sent."""
    end = time.monotonic() + 20
    while not (log.exists() and log.read_text().endswith("\n")):
        assert time.monotonic() < end, log
        time.sleep(0.02)


def _wait_for(path: Path) -> None:
    end = time.monotonic() + 20
    while not path.exists():
        assert time.monotonic() < end, path
        time.sleep(0.02)
