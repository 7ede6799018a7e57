"""The processes of a consortium that tests kill."""

from __future__ import annotations

import time
from collections.abc import Callable

import psutil

from consortia import DeployRun, forks

Find = Callable[[DeployRun, str], psutil.Process | None]


def _coordinator_service(name: str) -> Find:
    return lambda run, site: run.members.service("coordinator", name).process()


def _site_service(name: str) -> Find:
    return lambda run, site: run.members.service(site, name).process()


def _client_app(run: DeployRun, site: str) -> psutil.Process | None:
    apps = forks(run.members.service(site, "superexec"))
    return apps[0] if apps else None


VICTIMS: dict[str, Find] = {
    "superlink": _coordinator_service("superlink"),
    "superexec": _coordinator_service("superexec"),
    "proxy": _coordinator_service("proxy"),
    "server app": lambda run, site: run.server_app(),
    "command": lambda run, site: psutil.Process(run.process.pid),
    "supernode": _site_service("supernode"),
    "site's superexec": _site_service("superexec"),
    "client app": _client_app,
}


def find_victim(run: DeployRun, find: Find, site: str) -> psutil.Process | None:
    """Wait for the process to kill; None if the run ends first."""
    while run.process.poll() != 0:
        run.restart_if_failed()
        if (victim := find(run, site)) is not None:
            return victim
        time.sleep(0.01)
    return None
