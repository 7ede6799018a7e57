"""Consortia of real processes on loopback: nginx, SuperLink, SuperExecs and SuperNodes."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import tomli_w

from own_sites import graph_site
from ramet.deploy.consortium import write
from ramet.deploy.coordinator import SETTINGS, Coordinator
from ramet.deploy.init import init
from ramet.deploy.services import Service
from ramet.deploy.site import SETTINGS as SITE_SETTINGS
from ramet.deploy.site import Site, join
from ramet.flower.programs import free_ports
from ramet.flower.terms import Allow

TIMEOUT = 300.0
MAX_ATTEMPTS = 6


@dataclass(frozen=True)
class Members:
    """A coordinator and its sites, all on this machine."""

    coordinator: Coordinator
    sites: tuple[Site, ...]
    output: list[str]

    @property
    def proxy_address(self) -> str:
        return f"127.0.0.1:{self.coordinator.consortium.port}"

    def start(self) -> None:
        """Start whatever is not running, as systemd would."""
        self.coordinator.start(self.output.append)
        for site in self.sites:
            site.start(self.output.append)

    def stop(self) -> None:
        for party in (*self.sites, self.coordinator):
            party.stop(self.output.append)

    def change_settings(self, **changed: Any) -> None:
        """Change the settings of the next run."""
        current = Coordinator.open(self.coordinator.folder).consortium
        write(self.coordinator.folder / SETTINGS, current.model_copy(update=changed))

    def allow(self, **changes: Any) -> None:
        """Change what all sites allow, as their owners do in an editor."""
        for site in self.sites:
            settings = site.settings.model_copy(update={"allow": Allow(**changes)})
            write(site.folder / SITE_SETTINGS, settings)

    def site(self, name: str) -> Site:
        return next(site for site in self.sites if site.settings.site == name)

    def service(self, party: str, name: str) -> Service:
        """A service of the coordinator (``party="coordinator"``) or of a site."""
        owner = self.coordinator if party == "coordinator" else self.site(party)
        return next(service for service in owner.services() if service.name == name)


@contextmanager
def consortium(
    root: Path, features: Mapping[str, Sequence[str]], **settings: Any
) -> Iterator[Members]:
    """Set up a consortium whose sites have graphs as CSV, start it, and stop it at the end."""
    output: list[str] = []
    port, link_port, *runtime_ports = free_ports(2 + len(features))
    settings_file = root / "consortium.toml"
    fixed: dict[str, Any] = {
        "name": "test",
        "address": "localhost",
        "listen": "127.0.0.1",
        "port": port,
        "link_port": link_port,
        "sites": [*features],
    }
    root.mkdir(parents=True, exist_ok=True)
    given = {**fixed, **settings}
    settings_file.write_text(tomli_w.dumps(given))
    coordinator = init(settings_file, root / given["name"], output.append)
    sites = []
    for name, own_port in zip(features, runtime_ports, strict=True):
        invitation = coordinator.folder / "invitations" / f"{name}.toml"
        data = graph_site(root / "graphs" / name, features[name])
        site, application = join(
            invitation, data, root / f"{given['name']}-{name}", own_port, output.append
        )
        coordinator.admit(application, output.append)
        sites.append(site)
    members = Members(coordinator, tuple(sites), output)
    try:
        members.start()
        yield members
    finally:
        members.stop()
    parties = (*members.sites, coordinator)
    assert not any(service.process() for party in parties for service in party.services())


class DeployRun:
    """`ramet deploy run` as a process; a restart with the same folder resumes the run."""

    def __init__(self, members: Members, out: Path) -> None:
        self.members, self.out = members, out
        self.attempts = 0
        self._log = out.with_suffix(".log")
        self.start()

    def start(self) -> None:
        self.attempts += 1
        words = ["deploy", "run", str(self.members.coordinator.folder), "--out", str(self.out)]
        words += ["--deadline", str(TIMEOUT), "--json"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ramet", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    @property
    def output(self) -> str:
        """What the command has printed so far."""
        return self._log.read_text()

    def result(self) -> dict[str, Any]:
        """Wait until the run ends, restarting it if it fails."""
        while self.process.wait(2 * TIMEOUT) != 0:
            self.restart_if_failed()
        result: dict[str, Any] = json.loads((self.out / "result.json").read_text())
        return result

    def restart_if_failed(self) -> None:
        """Restart a failed run, as its error message suggests, a limited number of times."""
        if self.process.poll() in (None, 0):
            return
        assert self.attempts < MAX_ATTEMPTS, self._log.read_text()
        self.members.start()
        self.start()

    def rounds(self) -> list[dict[str, Any]]:
        lines = self.out / "rounds.jsonl"
        return [json.loads(line) for line in _complete_lines(lines)] if lines.exists() else []

    def server_app(self) -> psutil.Process | None:
        apps = children(self.members.service("coordinator", "superexec"), "flwr-serverapp")
        return apps[0] if apps else None


def children(service: Service, word: str) -> list[psutil.Process]:
    """The descendants of a service whose command line contains this word."""
    matching, process = [], service.process()
    for child in process.children(recursive=True) if process else ():
        try:
            if any(word in argument for argument in child.cmdline()):
                matching.append(child)
        except psutil.NoSuchProcess:
            continue
    return matching


def forks(service: Service) -> list[psutil.Process]:
    """The client apps that a SuperExec's fork server has forked."""
    apps = []
    for server in children(service, "multiprocessing.forkserver"):
        try:
            apps += server.children()
        except psutil.NoSuchProcess:
            continue
    return apps


def kill(process: psutil.Process) -> None:
    """Kill a process and wait until it is dead or a zombie."""
    process.send_signal(signal.SIGKILL)
    with suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)


def _complete_lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
