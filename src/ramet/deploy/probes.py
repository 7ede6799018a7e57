"""What can be seen of ports on this machine, and of the coordinator from here."""

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

_AHEAD, _BEHIND = 5.0, 300.0
"""Seconds that Flower lets a site's clock be ahead of the coordinator's, or behind it."""


@dataclass(frozen=True)
class Finding:
    """One thing that was looked at."""

    what: str
    well: bool
    seen: str
    remedy: str = ""
    may_pass: bool = False
    """It may be well in a moment, without anybody's help here."""

    @property
    def sentence(self) -> str:
        return f"{self.what}: {self.seen.rstrip('.')}. {self.remedy}"

    def demand(self) -> None:
        """Go no further unless this is well."""
        if not self.well:
            raise RametError(self.sentence)


def port(service: Service, host: str, number: int, name: str) -> Finding:
    what = f"port {number}"
    if service.process():
        return Finding(what, True, f"our {service.name}'s")
    remedy = f"End what listens there, or give another {name}."
    try:
        with socket.socket() as tried:
            tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            tried.bind((host, number))
    except OSError as error:
        return Finding(what, False, str(error.strerror), remedy)
    return Finding(what, True, "free")


def reach(address: str, port: int, authority: Path) -> Iterator[Finding]:
    """The proxy answers, with the consortium's certificate, refuses Control, and has our time."""
    where = f"{address}:{port}"
    try:
        status, date = _call(address, port, authority)
    except ssl.SSLCertVerificationError as error:
        remedy = "It is not the coordinator, or it has a new authority: compare fingerprints."
        yield Finding("coordinator", False, f"{where}: {error.verify_message}", remedy)
        return
    except socket.gaierror as error:
        remedy = "Ask the coordinator for its address, or have this machine's DNS mended."
        yield Finding("coordinator", False, f"no host is known as {address} ({error})", remedy)
        return
    except (OSError, HTTPException) as error:
        remedy = "Ask the coordinator whether it runs; open the firewall outwards to this port."
        yield Finding("coordinator", False, f"{where}: {error}", remedy, may_pass=True)
        return
    yield Finding("coordinator", True, f"{where} answers, with the consortium's certificate")
    remedy = "Stop the coordinator: something else than our proxy stands there."
    yield Finding("Control API from outside", status == 403, f"status {status}", remedy)
    ahead = time.time() - date
    well = -_BEHIND < ahead < _AHEAD
    seen = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the coordinator"
    yield Finding("clock", well, seen, "Set both clocks by NTP; Flower refuses calls otherwise.")


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
