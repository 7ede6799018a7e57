"""Reasons for which sites lose their coordinator, and how long they take to come back."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from unittest.mock import patch

from consortia import Members
from outsiders import HEADER, SILENT, slow_connections
from ramet.deploy.init import init

Outage = Callable[[Members, Callable[[], object]], float]
"""Cuts the sites off during a call; returns the time at which the cause was gone."""


def expired_certificate(members: Members, during: Callable[[], object]) -> float:
    """The server's certificate expires, and is renewed later as the documentation says."""
    with _certificates_valid_for(timedelta(seconds=-1)):
        _init_again(members)
    for name in ("superlink", "proxy"):
        service = members.service("coordinator", name)
        service.stop()
        service.start()
    try:
        during()
    finally:
        _init_again(members)
        members.coordinator.stop(members.output.append)
        gone = start_coordinator(members)
    return gone


def coordinator_away(members: Members, during: Callable[[], object]) -> float:
    members.coordinator.stop(members.output.append)
    try:
        during()
    finally:
        gone = start_coordinator(members)
    return gone


def flooded_proxy(members: Members, during: Callable[[], object]) -> float:
    coordinator = members.coordinator
    with slow_connections(coordinator.consortium.port, coordinator.authority, 600, SILENT, HEADER):
        during()
    return time.time()


OUTAGES: dict[str, Outage] = {
    "expired certificate": expired_certificate,
    "coordinator away": coordinator_away,
    "flooded proxy": flooded_proxy,
}


def start_coordinator(members: Members) -> float:
    """Start the coordinator; return when its proxy was started."""
    started: dict[str, float] = {}

    def say(text: str) -> None:
        started[text] = time.time()
        members.output.append(text)

    members.coordinator.start(say)
    return started["proxy: started"]


def seconds_to_recovery(members: Members, since: float, patience: float = 300.0) -> float:
    """Wait until each site has a heartbeat accepted after `since`, and the SuperLink lists it."""
    while (asked := time.time()) - since < patience:
        heard = all((site.last_heartbeat or 0.0) > since for site in members.sites)
        if heard and {*members.coordinator.site_statuses().values()} == {"online"}:
            return asked - since
        time.sleep(0.2)
    return patience


def _init_again(members: Members) -> None:
    folder: Path = members.coordinator.folder
    init(folder / "consortium.toml", folder, members.output.append)


@contextmanager
def _certificates_valid_for(validity: timedelta) -> Iterator[None]:
    with patch("ramet.deploy.keys._SERVER_VALIDITY", validity):
        yield
