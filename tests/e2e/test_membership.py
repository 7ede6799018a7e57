"""Outsiders and revoked sites during runs of a consortium of three sites behind a real nginx."""

from __future__ import annotations

import json
import shutil
import ssl
import time
from collections.abc import Iterator
from http.client import HTTPSConnection
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pytest

from consortia import TIMEOUT, DeployRun, Members, consortium
from outsiders import BODY, HEADER, IDLE, SILENT, post, slow_connections
from ramet.deploy.site import join
from ramet.errors import RametError

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
SITES = {"north": ("mass",), "south": ("mass", "charge"), "east": ("spin", "mass", "charge")}
ROUNDS = 6


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    root = tmp_path_factory.mktemp("membership")
    with consortium(root, SITES, method="fedstar", rounds=ROUNDS, quorum=2) as found:
        yield found


def test_slow_outsiders_delay_nobody(members: Members, tmp_path: Path) -> None:
    """300 connections without a certificate, of all kinds; twice the rounds' time is noise."""
    port, authority = members.coordinator.consortium.port, members.coordinator.authority
    link = _superlink(members)
    memory, files = _memory(members), link.num_fds()
    with slow_connections(port, authority, 300, SILENT, IDLE, HEADER, BODY) as outsiders:
        run = DeployRun(members, tmp_path / "run")
        assert run.process.wait(TIMEOUT) == 0, run.rounds()
        assert outsiders.counts()["closed"] > 300
        assert link.num_fds() < files + 50
    assert outsiders.most_open > 100
    assert [record["failed"] for record in run.rounds()] == [{}] * ROUNDS
    seconds = _seconds(run)[1:]
    assert max(seconds) < 2 * median(seconds) + 2
    assert _memory(members) < 1.5 * memory


def test_large_bodies_of_outsiders_do_not_reach_the_superlink(members: Members) -> None:
    port, authority = members.coordinator.consortium.port, members.coordinator.authority
    log, memory = members.service("coordinator", "superlink").log, _memory(members)
    pushes = log.read_text().count("push-object")
    for _ in range(10):
        assert post(port, authority, 60 * 10**6) in (400, None)
    assert log.read_text().count("push-object") == pushes
    assert _memory(members) < memory + 20e6


def test_a_site_that_is_revoked_during_a_run_is_missing(members: Members, tmp_path: Path) -> None:
    site, coordinator = members.site("east"), members.coordinator
    certificate = site.folder / "client.pem"
    assert _status(members, certificate) == 401  # Flower's answer to an unsigned call
    run = DeployRun(members, tmp_path / "run")
    _await_rounds(run, 2)
    coordinator.revoke("east", members.output.append)
    assert _status(members, certificate) == 400
    assert run.process.wait(TIMEOUT) == 0, run.rounds()
    failed = [record["failed"] for record in run.rounds()]
    assert len(failed) == ROUNDS
    assert failed[0] == {}
    assert failed[-1] == {
        "east": "it has no key at the coordinator: it was revoked, or not admitted"
    }
    assert coordinator.site_statuses() == {
        "north": "online",
        "south": "online",
        "east": "not admitted",
    }


def test_a_revoked_site_comes_back_with_a_new_key(members: Members) -> None:
    """Must be the last test, because it needs the revoked site."""
    site, coordinator = members.site("east"), members.coordinator
    site.stop(members.output.append)
    with pytest.raises(RametError, match="this key was revoked, which is final"):
        coordinator.admit(site.folder / "east.application.toml", members.output.append)
    (site.folder / "node.key").rename(site.folder / "old.key")
    _, application = join(
        coordinator.folder / "invitations" / "east.toml",
        site.settings.data,
        site.folder,
        site.settings.runtime_port,
        members.output.append,
    )
    coordinator.admit(application, members.output.append)
    site.start(members.output.append)
    assert coordinator.site_statuses()["east"] == "online"


def test_a_site_connects_over_ipv6(tmp_path: Path) -> None:
    with consortium(
        tmp_path, {"north": ("mass",)}, method="fedstar", address="::1", listen="::1"
    ) as found:
        assert found.coordinator.site_statuses() == {"north": "online"}
        assert all(check.ok for check in found.site("north").check_connection())


def _await_rounds(run: DeployRun, count: int) -> None:
    end = time.monotonic() + TIMEOUT
    while len(_seconds(run)) < count:
        assert run.process.poll() is None
        assert time.monotonic() < end
        time.sleep(0.1)


def _seconds(run: DeployRun) -> list[float]:
    """Seconds of each committed round."""
    events = run.out / "events.jsonl"
    lines = events.read_text().splitlines(keepends=True) if events.exists() else []
    read: list[dict[str, Any]] = [json.loads(line) for line in lines if line.endswith("\n")]
    return [event["seconds"] for event in read if event["event"] == "round committed"]


def _superlink(members: Members) -> psutil.Process:
    process = members.service("coordinator", "superlink").process()
    assert process is not None
    return process


def _memory(members: Members) -> int:
    return int(_superlink(members).memory_info().rss)


def _status(members: Members, certificate: Path) -> int:
    context = ssl.create_default_context(cafile=members.coordinator.authority)
    context.load_cert_chain(certificate)
    port = members.coordinator.consortium.port
    connection = HTTPSConnection("localhost", port, timeout=60, context=context)
    headers = {"Content-Type": "application/protobuf"}
    try:
        connection.request("POST", "/v1/fleet/pull-messages", body=b"", headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()
