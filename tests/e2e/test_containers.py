"""A consortium in containers, each member in its own network; run by `make containers`.

The programs are started from the generated compose files. The folder of one site has a name that
compose files and shells must quote. Containers are limited to the system calls and kinds of sockets
that the systemd units allow. Needs root, podman, podman-compose, iproute2 and systemd's files.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
import tomli_w

import ramet
from federations import merged_sha256
from namespaces import ADDRESS, COORDINATOR, Star, star
from own_sites import graph_site
from units import seccomp_profile

IMAGE = os.environ.get("RAMET_IMAGE", "")
pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(not IMAGE, reason="RAMET_IMAGE is not set; run `make containers`"),
]
SITES = {"north": ("mass",), "south": ("mass", "charge"), "east": ("spin", "mass", "charge")}
FOLDERS = {COORDINATOR: "side", "north": "side", "south": "a 'b' \"c\" \\new $HOME é", "east": "e"}
METHOD, ROUNDS, SEED = "fedstar", 2, 3
USER = 10001
ENVIRONMENT = {**os.environ, "DISABLE_HC_SYSTEMD": "true"}
"""Without systemd, podman starts no health checks of its own."""
STARTED = 180.0
FORBIDDEN_SOCKET = "import socket; socket.socket(socket.AF_NETLINK, socket.SOCK_RAW)"


@dataclass(frozen=True)
class Member:
    """A member's machine: a network, and a folder that its containers mount."""

    root: Path
    name: str
    networks: Star

    @property
    def side(self) -> Path:
        return self.root / FOLDERS[self.name]

    @property
    def _project(self) -> str:
        return self.networks.namespace(self.name)

    def ramet(self, *words: str) -> str:
        """Run a command of Ramet in a container, under the restrictions of the compose file."""
        options = ["--rm", "--network=host", "--read-only", "--tmpfs=/tmp", "--cap-drop=ALL"]
        options += ["--security-opt=no-new-privileges", f"--user={USER}:{USER}"]
        options += [f"--volume={self.root}:{self.root}", f"--workdir={self.root}"]
        return self.run("podman", "run", *options, IMAGE, "ramet", *words)

    def compose(self, *words: str) -> None:
        file = str(self.side / "compose.yaml")
        limits = f"--podman-run-args=--security-opt=seccomp={self._write_seccomp_profile()}"
        command = ["podman-compose", "--in-pod=false", limits, "-p", self._project, "-f", file]
        self.run(*command, *words)

    def _write_seccomp_profile(self) -> Path:
        unit, *_ = self.side.glob("*.service")
        profile = self.root / "seccomp.json"
        profile.write_text(json.dumps(seccomp_profile(unit.read_text())))
        return profile

    def container(self, service: str) -> str:
        labels = {"project": self._project, "service": service}
        filters = [f"--filter=label=com.docker.compose.{key}={labels[key]}" for key in labels]
        return self.run("podman", "ps", "--quiet", *filters).strip()

    def healthy(self, service: str) -> bool:
        container = self.container(service)
        return bool(container) and self._succeeds("podman", "healthcheck", "run", container)

    def run_inside(self, service: str, *command: str) -> str:
        return self.run("podman", "exec", self.container(service), *command)

    def succeeds_inside(self, service: str, *command: str) -> bool:
        return self._succeeds("podman", "exec", self.container(service), *command)

    def run(self, *command: str) -> str:
        done = self._start(*command)
        assert done.returncode == 0, f"{shlex.join(command)}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def _succeeds(self, *command: str) -> bool:
        return self._start(*command).returncode == 0

    def _start(self, *command: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [*self.networks.enter(self.name), *command],
            env=ENVIRONMENT,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )


@dataclass(frozen=True)
class Members:
    coordinator: Member
    sites: dict[str, Member]


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    root = tmp_path_factory.mktemp("containers")
    with star([*SITES]) as networks:
        coordinator = Member(root / COORDINATOR, COORDINATOR, networks)
        sites = {name: Member(root / name, name, networks) for name in SITES}
        _write_files(coordinator, sites)
        coordinator.ramet("deploy", "init", "consortium.toml", "--out", str(coordinator.side))
        with _up(coordinator):
            _wait(lambda: coordinator.healthy("superlink") and coordinator.healthy("proxy"))
            with _join(coordinator, [*sites.values()]):
                yield Members(coordinator, sites)


def _write_files(coordinator: Member, sites: dict[str, Member]) -> None:
    settings = {"name": "test", "address": ADDRESS, "sites": [*sites], "method": METHOD}
    numbers = {"rounds": ROUNDS, "seed": SEED, "quorum": len(sites)}
    coordinator.root.mkdir()
    (coordinator.root / "consortium.toml").write_text(tomli_w.dumps({**settings, **numbers}))
    for name, member in sites.items():
        graph_site(member.root / name, SITES[name])
    for member in (coordinator, *sites.values()):
        _give_to_user(member.root)


def _give_to_user(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, USER, USER)


@contextmanager
def _join(coordinator: Member, sites: list[Member]) -> Iterator[None]:
    """Let the sites join one after the other, and keep them running."""
    if not sites:
        yield
        return
    site, *others = sites
    invitation, application = f"{site.name}.toml", f"{site.name}.application.toml"
    shutil.copy(coordinator.side / "invitations" / invitation, site.root)
    os.chown(site.root / invitation, USER, USER)
    data = site.root / site.name / "site.toml"
    site.ramet("deploy", "join", invitation, "--data", str(data), "--out", str(site.side))
    shutil.copy(site.side / application, coordinator.side)
    os.chown(coordinator.side / application, USER, USER)
    admit = ["ramet", "deploy", "admit", str(coordinator.side / application)]
    assert "proxy: reloaded" in coordinator.run_inside("proxy", *admit, str(coordinator.side))
    with _up(site):
        _wait(lambda: site.healthy("supernode"))
        with _join(coordinator, others):
            yield


@contextmanager
def _up(member: Member) -> Iterator[None]:
    try:
        member.compose("up", "--detach")
        yield
    finally:
        member.compose("down")


def _wait(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + STARTED
    while not condition():
        assert time.monotonic() < end, f"not reached within {STARTED:.0f} s"
        time.sleep(2)


def test_the_final_model_is_the_local_engines(members: Members, tmp_path: Path) -> None:
    out = members.coordinator.side / "runs" / "first"
    folder = str(members.coordinator.side)
    run = ["ramet", "deploy", "run", folder, "--out", str(out), "--json"]
    members.coordinator.run_inside("superlink", *run)
    files = shlex.join(str(m.root / name / "site.toml") for name, m in members.sites.items())
    expected = ramet.run(
        METHOD, "own", rounds=ROUNDS, seed=SEED, out=tmp_path / "local", sites=files
    )
    assert json.loads((out / "result.json").read_text())["sha256"] == merged_sha256(expected.folder)


@pytest.mark.parametrize("service", ["supernode", "superexec"])
def test_containers_have_no_privileges(members: Members, service: str) -> None:
    for site in members.sites.values():
        assert site.succeeds_inside(service, "touch", str(site.side / "state" / "probe"))
        assert site.succeeds_inside(service, "touch", "/tmp/probe")
        for path in ("/probe", "/opt/ramet/probe", "/var/probe", str(site.root / site.name / "x")):
            assert not site.succeeds_inside(service, "touch", path)
        status = site.run_inside(service, "cat", "/proc/self/status")
        found = dict(line.split(":\t", 1) for line in status.splitlines() if ":\t" in line)
        assert found["Uid"].split() == [str(USER)] * 4
        assert {int(found[name], 16) for name in ("CapEff", "CapPrm", "CapBnd", "CapAmb")} == {0}
        assert found["NoNewPrivs"] == "1"
        assert not site.succeeds_inside(service, "python3", "-c", FORBIDDEN_SOCKET)


def test_a_site_reaches_the_proxy_and_nothing_else(members: Members) -> None:
    site = members.sites["north"]
    connect = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"

    def reaches(address: str, port: int) -> bool:
        return site.succeeds_inside("supernode", "python3", "-c", connect, address, str(port))

    assert reaches(ADDRESS, 8443)
    assert not reaches(ADDRESS, 8000)  # the SuperLink
    assert not reaches(site.networks.site_address("south"), 9094)


def test_a_site_whose_link_was_cut_is_unhealthy_until_it_returns(members: Members) -> None:
    site = members.sites["east"]
    site.networks.set_link("east", "down")
    try:
        _wait(lambda: not site.healthy("supernode"))
    finally:
        site.networks.set_link("east", "up")
    since = time.monotonic()
    _wait(lambda: site.healthy("supernode"))
    assert time.monotonic() - since < 60
