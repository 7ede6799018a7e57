"""Checks of this machine's ports and of its connection to the coordinator."""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPSConnection
from pathlib import Path

from ramet.deploy.services import Service
from ramet.errors import RametError

_MAX_AHEAD, _MAX_BEHIND = 5.0, 300.0
"""Seconds that Flower allows a site's clock to be ahead of or behind the coordinator's."""


@dataclass(frozen=True)
class Finding:
    """The result of one check."""

    name: str
    ok: bool
    detail: str
    remedy: str = ""
    transient: bool = False
    """Whether the problem may go away without any action on this machine."""

    @property
    def sentence(self) -> str:
        return f"{self.name}: {self.detail.rstrip('.')}. {self.remedy}"

    def require_ok(self) -> None:
        if not self.ok:
            raise RametError(self.sentence)


def check_port(service: Service, host: str, number: int, option: str) -> Finding:
    """Check that a service's port is free, or used by the service itself."""
    name = f"port {number}"
    if service.process():
        return Finding(name, True, f"in use by our {service.name}")
    remedy = f"Stop the program that listens there, or choose another {option}."
    try:
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, number))
    except OSError as error:
        return Finding(name, False, str(error.strerror), remedy)
    return Finding(name, True, "free")


def check_connection(address: str, port: int, authority: Path) -> Iterator[Finding]:
    """Check the proxy's certificate, that it refuses the Control API, and this machine's clock."""
    endpoint = f"{address}:{port}"
    try:
        status, date = _call(address, port, authority)
    except ssl.SSLCertVerificationError as error:
        remedy = "This is not the coordinator, or it has a new authority: compare fingerprints."
        yield Finding("coordinator", False, f"{endpoint}: {error.verify_message}", remedy)
        return
    except socket.gaierror as error:
        remedy = "Ask the coordinator for its address, or fix this machine's DNS."
        yield Finding("coordinator", False, f"cannot resolve {address} ({error})", remedy)
        return
    except (OSError, HTTPException) as error:
        remedy = "Ask the coordinator if it is running; allow outgoing connections to this port."
        yield Finding("coordinator", False, f"{endpoint}: {error}", remedy, transient=True)
        return
    yield Finding("coordinator", True, f"{endpoint} answers with the consortium's certificate")
    remedy = "Stop the coordinator: something other than Ramet's proxy answers there."
    yield Finding("Control API from outside", status == 403, f"status {status}", remedy)
    ahead = time.time() - date
    ok = -_MAX_BEHIND < ahead < _MAX_AHEAD
    detail = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the coordinator"
    yield Finding("clock", ok, detail, "Set both clocks by NTP; Flower refuses calls otherwise.")


def _call(address: str, port: int, authority: Path) -> tuple[int, float]:
    context = ssl.create_default_context(cafile=authority)
    connection = HTTPSConnection(address, port, timeout=10, context=context)
    try:
        connection.request("POST", "/v1/control/list-runs")
        answer = connection.getresponse()
        date = answer.getheader("Date")
        when = parsedate_to_datetime(date).timestamp() if date else time.time()
        return answer.status, when
    finally:
        connection.close()
