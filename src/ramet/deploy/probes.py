"""Checks of this machine's nginx and ports, and of its connection to the coordinator."""

from __future__ import annotations

import os
import shutil
import socket
import ssl
import subprocess
import time
from base64 import b64encode
from collections.abc import Iterator
from dataclasses import dataclass
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPSConnection
from pathlib import Path
from urllib.parse import unquote, urlsplit
from urllib.request import getproxies, proxy_bypass

from ramet.deploy.consortium import endpoint
from ramet.deploy.services import SYSTEM_PROGRAMS, Service
from ramet.errors import RametError

_MAX_AHEAD, _MAX_BEHIND = 5.0, 300.0
"""Seconds that Flower allows a site's clock to be ahead of or behind the coordinator's."""
_TIMEOUT = 10.0
_EXPIRED = 10
"""OpenSSL's X509_V_ERR_CERT_HAS_EXPIRED."""
_RENEW = "The coordinator must rerun `ramet deploy init`, then `ramet deploy stop` and `start`."
_COMPARE = "This is not the coordinator, or it has a new authority: compare fingerprints."
_NO_CERTIFICATE, _FORBIDDEN = 400, 403
"""The proxy's answers to a client that is not admitted, and to paths that no site needs."""


@dataclass(frozen=True)
class Check:
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


def check_nginx() -> Check:
    """Check that nginx is installed."""
    remedy = (
        "Install it (Debian: apt-get install nginx-light); Ramet runs it with its own settings."
    )
    nginx = shutil.which("nginx", path=os.pathsep.join([os.environ["PATH"], *SYSTEM_PROGRAMS]))
    if nginx is None:
        return Check("nginx", False, "not found", remedy)
    done = subprocess.run([nginx, "-v"], capture_output=True, text=True, check=False)
    return Check("nginx", done.returncode == 0, done.stderr.strip(), remedy)


def check_port(service: Service, host: str, number: int, option: str) -> Check:
    """Check that a service's port is free, or used by the service itself."""
    name = f"port {number}"
    if service.process():
        return Check(name, True, f"in use by our {service.name}")
    at_a_site = option.startswith("--")
    where = "`ramet deploy join`" if at_a_site else "consortium.toml, and rerun `ramet deploy init`"
    remedy = f"Stop the program that listens there, or choose another {option} in {where}."
    try:
        with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, number))
    except OSError as error:
        return Check(name, False, str(error.strerror), remedy)
    return Check(name, True, "free")


def check_connection(
    address: str, port: int, authority: Path, certificate: Path | None = None
) -> Iterator[Check]:
    """Check the proxy's certificate, that it refuses the Control API, and this machine's clock.

    A site presents its own certificate, and also checks that the proxy accepts it.
    """
    where = endpoint(address, port)
    try:
        status, date = _call(address, port, authority, certificate)
    except ssl.SSLCertVerificationError as error:
        expired = error.verify_code == _EXPIRED
        remedy = _RENEW if expired else _COMPARE
        detail = f"{where}: {error.verify_message}"
        yield Check("coordinator", False, detail, remedy, transient=expired)
        return
    except socket.gaierror as error:
        remedy = "Ask the coordinator for its address, or fix this machine's DNS."
        yield Check("coordinator", False, f"cannot resolve {address} ({error})", remedy)
        return
    except (OSError, HTTPException) as error:
        remedy = "Ask the coordinator if it is running; allow outgoing connections to this port."
        yield Check("coordinator", False, f"{where}: {error}", remedy, transient=True)
        return
    yield Check("coordinator", True, f"{where} answers with the consortium's certificate")
    if certificate:
        yield _check_admitted(status, certificate.parent)
    remedy = "Stop the coordinator: something other than Ramet's proxy answers there."
    refused = status in (_NO_CERTIFICATE, _FORBIDDEN)
    yield Check("Control API from outside", refused, f"status {status}", remedy)
    ahead = time.time() - date
    ok = -_MAX_BEHIND < ahead < _MAX_AHEAD
    detail = f"{abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the coordinator"
    yield Check("clock", ok, detail, "Set both clocks by NTP; Flower refuses calls otherwise.")


def _check_admitted(status: int, folder: Path) -> Check:
    if status != _NO_CERTIFICATE:
        return Check("admission", True, "the coordinator accepts this site's certificate")
    detail = "the coordinator does not accept this site's certificate: not admitted yet, or revoked"
    remedy = f"Send it the application in {folder}; there, `ramet deploy admit` takes this file."
    return Check("admission", False, detail, remedy, transient=True)


def _call(address: str, port: int, authority: Path, certificate: Path | None) -> tuple[int, float]:
    context = ssl.create_default_context(cafile=authority)
    if certificate and certificate.exists():
        context.load_cert_chain(certificate)
    connection = _connection(address, port, context)
    try:
        connection.request("POST", "/v1/control/list-runs")
        answer = connection.getresponse()
        date = answer.getheader("Date")
        when = parsedate_to_datetime(date).timestamp() if date else time.time()
        return answer.status, when
    finally:
        connection.close()


def _connection(address: str, port: int, context: ssl.SSLContext) -> HTTPSConnection:
    """A connection as the SuperNode makes it: through a proxy, if the environment names one."""
    proxies = getproxies()
    proxy = urlsplit(proxies.get("https") or proxies.get("all") or "")
    if not proxy.hostname or proxy_bypass(address):
        return HTTPSConnection(address, port, timeout=_TIMEOUT, context=context)
    login = f"{unquote(proxy.username or '')}:{unquote(proxy.password or '')}"
    headers = {"Proxy-Authorization": f"Basic {b64encode(login.encode()).decode()}"}
    connection = HTTPSConnection(
        proxy.hostname, proxy.port or 80, timeout=_TIMEOUT, context=context
    )
    connection.set_tunnel(address, port, headers if proxy.username else None)
    return connection
