"""Sites that lose their coordinator say so, and are online again within a minute of its return."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from typer.testing import CliRunner

from consortia import DeployRun, Members, consortium
from outages import OUTAGES, coordinator_away, expired_certificate, seconds_to_recovery
from ramet.cli.main import app
from ramet.deploy.alive import is_recent
from ramet.deploy.site import Site

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
SITES = {"north": ("mass",), "south": ("mass", "charge")}
WITHIN = 60.0


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    root = tmp_path_factory.mktemp("liveness")
    with consortium(root, SITES, method="fedstar", rounds=2, quorum=2) as found:
        yield found


def test_the_coordinator_goes_away_and_returns(members: Members) -> None:
    before = _supernodes(members)
    gone = coordinator_away(members, lambda: _check_that_sites_report_it(members))
    assert seconds_to_recovery(members, gone) < WITHIN
    assert _supernodes(members) == before  # a restart would lose the work on a message
    _check_that_all_is_well(members)


def test_the_servers_certificate_expires_and_is_renewed(members: Members) -> None:
    coordinator, before = members.coordinator.folder, _supernodes(members)

    def check() -> None:
        _check_that_sites_report_it(members)
        code, output = _ramet("deploy", "alive", coordinator)
        assert code == 1
        for name in ("superlink", "proxy"):
            assert f"{name}: certificate has expired\n" in output
        examined = CliRunner().invoke(app, ["doctor", str(coordinator)])
        assert isinstance(examined.exception, SystemExit)  # all checks were made
        assert "BAD proxy: certificate has expired" in examined.output
        status = _ramet("deploy", "status", coordinator)
        assert status[0] == 1
        assert "but certificate has expired" in status[1]
        assert 'ramet_service_up{service="proxy"} 0.0' in _metrics(coordinator)
        assert "certificate has expired" in _ramet("doctor", members.sites[0].folder)[1]

    gone = expired_certificate(members, check)
    assert seconds_to_recovery(members, gone) < WITHIN
    assert _supernodes(members) == before
    _check_that_all_is_well(members)


def test_the_proxy_is_flooded_with_slow_connections(members: Members) -> None:
    gone = OUTAGES["flooded proxy"](members, lambda: time.sleep(60))
    assert seconds_to_recovery(members, gone) < WITHIN
    _check_that_all_is_well(members)


def test_a_killed_supernode_is_restarted(members: Members) -> None:
    """Flower refuses it for up to a minute after its last heartbeat."""
    node = members.service("north", "supernode")
    killed, since = node.process(), time.time()
    assert killed is not None
    killed.kill()
    assert seconds_to_recovery(members, since) < 2 * WITHIN
    restarted = node.process()
    assert restarted is not None
    assert restarted.pid != killed.pid


def test_a_run_completes_after_all_that(members: Members, tmp_path: Path) -> None:
    result = DeployRun(members, tmp_path / "r").result()
    assert result["rounds"] == 2


def _check_that_sites_report_it(members: Members) -> None:
    end = time.monotonic() + 120
    while any(is_recent(site.last_heartbeat) for site in members.sites):
        assert time.monotonic() < end
        time.sleep(0.2)
    for site in members.sites:
        code, output = _ramet("deploy", "alive", site.folder)
        assert code == 1
        assert "supernode: no heartbeat accepted since" in output
        assert _quick_check(site) == 1
        assert "BAD supernode: no heartbeat" in _ramet("doctor", site.folder)[1]
        code, output = _ramet("deploy", "status", site.folder)
        assert code == 1
        assert ", but no heartbeat accepted since" in output
        assert 'ramet_service_up{service="supernode"} 0.0' in _metrics(site.folder)
        with pytest.raises(_RetriedError, match=r"Retrying for up to 150 s"):
            site.start(_stop_retrying)


def _check_that_all_is_well(members: Members) -> None:
    for party in (members.coordinator, *members.sites):
        assert _ramet("deploy", "alive", party.folder)[0] == 0
    for site in members.sites:
        assert _quick_check(site) == 0
        assert 'ramet_service_up{service="supernode"} 1.0' in _metrics(site.folder)
        said: list[str] = []
        site.start(said.append)
        assert said[0].startswith("supernode: already running, last heartbeat accepted ")


def _supernodes(members: Members) -> list[int | None]:
    processes = (members.service(name, "supernode").process() for name in SITES)
    return [process and process.pid for process in processes]


def _ramet(*words: str | Path) -> tuple[int, str]:
    done = CliRunner().invoke(app, [str(word) for word in words])
    return done.exit_code, done.output


def _quick_check(site: Site) -> int:
    words = [sys.executable, "-m", "ramet.deploy.alive", str(site.folder)]
    return subprocess.run(words, check=False, stdout=subprocess.DEVNULL).returncode


def _metrics(folder: Path) -> str:
    file = folder / "ramet.prom"
    assert _ramet("deploy", "metrics", folder, "--textfile", file)[0] == 0
    return file.read_text()


class _RetriedError(Exception):
    pass


def _stop_retrying(text: str) -> None:
    raise _RetriedError(text)
