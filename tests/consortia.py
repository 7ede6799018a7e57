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
from ramet.deploy.coordinator import SETTINGS, Coordinator, init
from ramet.deploy.services import Service
from ramet.deploy.site import Site, join
from ramet.flower.programs import free_ports

PATIENCE = 300.0
MOST_ATTEMPTS = 6


@dataclass(frozen=True)
class Members:
    """A coordinator and its sites, all on this machine."""

    coordinator: Coordinator
    sites: tuple[Site, ...]
    said: list[str]

    @property
    def outside(self) -> str:
        return f"127.0.0.1:{self.coordinator.consortium.port}"

    def start(self) -> None:
        """Start whatever does not run, as systemd would."""
        self.coordinator.start(self.said.append)
        for site in self.sites:
            site.start(self.said.append)

    def stop(self) -> None:
        for side in (*self.sites, self.coordinator):
            side.stop(self.said.append)

    def agree(self, **changed: Any) -> None:
        """Change what they run together."""
        now = Coordinator.open(self.coordinator.folder).consortium
        write(self.coordinator.folder / SETTINGS, now.model_copy(update=changed))

    def site(self, name: str) -> Site:
        return next(site for site in self.sites if site.settings.site == name)

    def service(self, side: str, name: str) -> Service:
        """Of the coordinator (``coordinator``) or a site."""
        owner = self.coordinator if side == "coordinator" else self.site(side)
        return next(service for service in owner.services() if service.name == name)


@contextmanager
def consortium(
    root: Path, features: Mapping[str, Sequence[str]], **settings: Any
) -> Iterator[Members]:
    """init, join with own graphs as CSV, admit and start; in the end all are stopped."""
    said: list[str] = []
    port, link_port, *runtime_ports = free_ports(2 + len(features))
    agreed = root / "consortium.toml"
    fixed = {
        "name": "test",
        "address": "localhost",
        "listen": "127.0.0.1",
        "port": port,
        "link_port": link_port,
        "sites": [*features],
    }
    root.mkdir(parents=True, exist_ok=True)
    agreed.write_text(tomli_w.dumps({**fixed, **settings}))
    coordinator = init(agreed, root / "coordinator", said.append)
    joined = []
    for name, own_port in zip(features, runtime_ports, strict=True):
        invitation = coordinator.folder / "invitations" / f"{name}.toml"
        data = graph_site(root / "graphs" / name, features[name])
        site, application = join(invitation, data, root / name, own_port, said.append)
        coordinator.admit(application, said.append)
        joined.append(site)
    members = Members(coordinator, tuple(joined), said)
    try:
        members.start()
        yield members
    finally:
        members.stop()
    sides = (*members.sites, coordinator)
    assert not any(service.process() for side in sides for service in side.services())


class DeployRun:
    """`ramet deploy run` as a process; begun again with the same folder, it goes on."""

    def __init__(self, members: Members, out: Path) -> None:
        self.members, self.out = members, out
        self.attempts = 0
        self._log = out.with_suffix(".log")
        self.begin()

    def begin(self) -> None:
        self.attempts += 1
        words = ["deploy", "run", str(self.members.coordinator.folder), "--out", str(self.out)]
        words += ["--deadline", str(PATIENCE), "--json"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "ramet", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )

    def result(self) -> dict[str, Any]:
        """Wait for the end, and begin again where it failed."""
        while self.process.wait(2 * PATIENCE) != 0:
            self.begin_again_if_failed()
        found: dict[str, Any] = json.loads((self.out / "result.json").read_text())
        return found

    def begin_again_if_failed(self) -> None:
        """As its last words say; a few times at most."""
        if self.process.poll() in (None, 0):
            return
        assert self.attempts < MOST_ATTEMPTS, self._log.read_text()
        self.members.start()
        self.begin()

    def rounds(self) -> list[dict[str, Any]]:
        lines = self.out / "rounds.jsonl"
        return [json.loads(line) for line in _whole_lines(lines)] if lines.exists() else []

    def server_app(self) -> psutil.Process | None:
        found = children(self.members.service("coordinator", "superexec"), "flwr-serverapp")
        return found[0] if found else None


def children(service: Service, what: str) -> list[psutil.Process]:
    """The processes under a service whose command has this word."""
    found, owner = [], service.process()
    for child in owner.children(recursive=True) if owner else ():
        try:
            if any(what in word for word in child.cmdline()):
                found.append(child)
        except psutil.NoSuchProcess:
            continue
    return found


def forks(service: Service) -> list[psutil.Process]:
    """The client apps under a site's SuperExec: what its fork server has forked."""
    found = []
    for server in children(service, "multiprocessing.forkserver"):
        try:
            found += server.children()
        except psutil.NoSuchProcess:
            continue
    return found


def kill(process: psutil.Process) -> None:
    """And see it dead; its parent may leave a zombie."""
    process.send_signal(signal.SIGKILL)
    with suppress(psutil.NoSuchProcess):
        while process.status() != psutil.STATUS_ZOMBIE:
            time.sleep(0.01)


def _whole_lines(path: Path) -> list[str]:
    return [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
