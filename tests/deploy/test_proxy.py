"""A real nginx in front of a server that records what reaches it."""

from __future__ import annotations

import os
import re
import shutil
import socket
import ssl
import subprocess
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass, field
from http.client import HTTPSConnection
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import psutil
import pytest
import tomli_w

from ramet.deploy import keys
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.init import init
from ramet.deploy.probes import Check
from ramet.deploy.proxy import PID, reload_nginx
from ramet.deploy.services import SYSTEM_PROGRAMS
from ramet.deploy.site import Site, join
from ramet.flower.programs import free_ports
from servers import serving_tls
from traffic import contents, recorded, share_found

pytestmark = pytest.mark.skipif(
    shutil.which("nginx", path=os.pathsep.join([os.environ["PATH"], *SYSTEM_PROGRAMS])) is None,
    reason="nginx is not installed",
)
PATH = "/v1/fleet/pull-messages"


@dataclass
class Door:
    """A coordinator whose proxy runs, one site that has joined, and the requests let through."""

    coordinator: Coordinator
    site: Site
    application: Path
    received: list[tuple[str, int]] = field(default_factory=list)
    """The path and the body's size of every request that reaches the SuperLink's port."""

    @property
    def certificate(self) -> Path:
        return self.site.folder / "client.pem"

    def admit(self) -> None:
        self.coordinator.admit(self.application, lambda _: None)

    def connect(self, certificate: Path | None = None) -> HTTPSConnection:
        consortium = self.coordinator.consortium
        context = ssl.create_default_context(cafile=self.coordinator.authority)
        if certificate:
            context.load_cert_chain(certificate)
        return HTTPSConnection(consortium.address, consortium.port, timeout=20, context=context)

    def status(self, certificate: Path | None = None, path: str = PATH, size: int = 0) -> int:
        connection = self.connect(certificate)
        try:
            connection.request("POST", path, body=bytes(size))
            return connection.getresponse().status
        finally:
            connection.close()

    def checks(self) -> dict[str, Check]:
        return {check.name: check for check in self.site.check_connection()}


@contextmanager
def door(root: Path, address: str = "127.0.0.1", listen: str = "127.0.0.1") -> Iterator[Door]:
    port, link_port = free_ports(2)
    settings = {"name": "one", "address": address, "listen": listen, "port": port}
    settings |= {"link_port": link_port, "sites": ["north"], "method": "fedstar"}
    (root / "consortium.toml").write_text(tomli_w.dumps(settings))
    coordinator = init(root / "consortium.toml", root / "one", lambda _: None)
    invitation = coordinator.folder / "invitations" / "north.toml"
    site, application = join(invitation, root / "site.toml", root / "north", 9094, lambda _: None)
    found = Door(coordinator, site, application)
    (proxy,) = [service for service in coordinator.services() if service.name == "proxy"]
    with _upstream(found):
        assert proxy.start()
        try:
            _await_workers(coordinator)
            yield found
        finally:
            proxy.stop()


def _upstream(found: Door) -> AbstractContextManager[None]:
    class Recording(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            found.received.append((self.path, len(body)))
            self.send_response(200)
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            """Leave the test's output alone."""

    address = "127.0.0.1", found.coordinator.consortium.link_port
    return serving_tls(ThreadingHTTPServer(address, Recording), found.coordinator.folder)


def _await_workers(coordinator: Coordinator) -> None:
    """nginx listens before it writes its id and starts its workers, and a reload needs both."""
    settings = (coordinator.folder / "nginx.conf").read_text()
    (wanted,) = re.findall(r"worker_processes (\d+)", settings)
    end = time.monotonic() + 60
    while _workers(coordinator.folder / PID) < int(wanted):
        assert time.monotonic() < end
        time.sleep(0.05)


def _workers(pid_file: Path) -> int:
    text = pid_file.read_text() if pid_file.exists() else ""
    return len(psutil.Process(int(text)).children()) if text else 0


def test_only_admitted_sites_reach_the_superlink(tmp_path: Path) -> None:
    with door(tmp_path) as found:
        keys.ensure_signing_key(tmp_path / "stranger.key")
        stranger = tmp_path / "stranger.pem"
        keys.ensure_client_certificate(stranger, "north", tmp_path / "stranger.key")
        outsiders = (None, stranger, found.certificate)
        assert [found.status(certificate) for certificate in outsiders] == [400, 400, 400]
        check = found.checks()["admission"]
        assert "not admitted yet" in check.detail
        assert "ramet deploy admit" in check.remedy
        assert found.received == []

        found.admit()
        assert found.status(found.certificate, size=5 * 2**20) == 200
        assert found.received == [(PATH, 5 * 2**20)]
        assert [found.status(certificate) for certificate in outsiders[:2]] == [400, 400]
        assert all(check.ok for check in found.checks().values())
        assert found.checks()["Control API from outside"].detail == "status 403"

        found.coordinator.revoke("north", lambda _: None)
        assert found.status(found.certificate) == 400
        assert len(found.received) == 1


def test_what_passes_can_be_recorded_and_searched(tmp_path: Path) -> None:
    """As the tests of secure sums do, which search the traffic for what sites have computed."""
    draws = np.random.default_rng(0)
    sent, kept = (draws.normal(size=(200, 64)).astype(np.float32) for _ in range(2))
    with door(tmp_path) as found, recorded(found.coordinator, tmp_path / "traffic"):
        found.admit()
        connection = found.connect(found.certificate)
        connection.request("POST", PATH, body=b"." + sent.tobytes())
        assert connection.getresponse().status == 200
        connection.close()
    shares = share_found({"sent": sent, "kept": kept}, contents(tmp_path / "traffic"))
    assert shares["sent"] > 0.99
    assert shares["kept"] == 0.0
    assert found.received == [(PATH, 1 + sent.nbytes)]


def test_revoking_closes_the_connections_of_a_site(tmp_path: Path) -> None:
    with door(tmp_path) as found:
        found.admit()
        connection = found.connect(found.certificate)
        connection.request("POST", PATH, body=b"")
        connection.getresponse().read()
        found.coordinator.revoke("north", lambda _: None)
        connection.sock.settimeout(20)  # nginx closes idle connections after 30 s
        assert connection.sock.recv(1) == b""
        assert len(found.received) == 1


def test_a_certificate_of_the_server_opens_nothing(tmp_path: Path) -> None:
    """The authority signs only the server's certificate, which is not for clients."""
    with door(tmp_path) as found:
        pair = tmp_path / "pair.pem"
        folder = found.coordinator.folder
        pair.write_text((folder / "server.pem").read_text() + (folder / "server.key").read_text())
        assert found.status(pair) == 400
        assert found.received == []


def test_large_bodies_end_at_the_proxy(tmp_path: Path) -> None:
    with door(tmp_path) as found:
        found.admit()
        for certificate, status in ((None, b"400"), (found.certificate, b"413")):
            connection = found.connect(certificate)
            connection.putrequest("POST", PATH)
            connection.putheader("Content-Length", str(60 * 10**6))
            connection.endheaders()
            assert connection.sock.recv(1024).split()[1] == status
            connection.close()
        assert found.received == []


@pytest.mark.thorough
def test_slow_outsiders_are_disconnected_and_do_not_disturb_a_site(tmp_path: Path) -> None:
    """600 connections: without a handshake, with a header, and with a body that do not end."""
    with door(tmp_path) as found, ExitStack() as stack:
        found.admit()
        address = ("127.0.0.1", found.coordinator.consortium.port)
        silent = [stack.enter_context(socket.create_connection(address)) for _ in range(400)]
        slow = []
        for number in range(200):
            connection = found.connect()
            connection.connect()
            slow.append(stack.enter_context(connection.sock))
            connection.sock.sendall(f"POST {PATH} HTTP/1.1\r\nHost: a\r\n".encode())
            if number % 2:
                connection.sock.sendall(b"Content-Length: 1000\r\n\r\n0")
        begun = time.monotonic()
        assert found.status(found.certificate) == 200
        for outsider in (*silent, *slow):
            outsider.settimeout(max(0.1, begun + 30 - time.monotonic()))
            while _received(outsider):
                pass
        assert found.received == [(PATH, 0)]


def _received(outsider: socket.socket) -> bytes:
    """What the proxy sends; empty if it has closed the connection."""
    try:
        return outsider.recv(4096)
    except ConnectionResetError:
        return b""


@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl is not installed")
def test_the_names_of_sites_are_not_shown_to_outsiders(tmp_path: Path) -> None:
    """A server sends the names of the authorities that it accepts before it knows the client."""
    with door(tmp_path) as found:
        found.admit()
        address = f"127.0.0.1:{found.coordinator.consortium.port}"
        words = ["openssl", "s_client", "-connect", address]
        shown = subprocess.run(words, input=b"", capture_output=True, check=False).stdout
        assert b"CN = one authority" in shown
        assert b"north" not in shown


@pytest.mark.skipif(not socket.has_ipv6, reason="this machine has no IPv6")
@pytest.mark.parametrize(("address", "listen"), [("::1", "::1"), ("::1", "::")])
def test_sites_may_reach_the_coordinator_over_ipv6(
    tmp_path: Path, address: str, listen: str
) -> None:
    with door(tmp_path, address, listen) as found:
        found.admit()
        assert found.status(found.certificate) == 200
        checks = found.checks()
        port = found.coordinator.consortium.port
        assert checks["coordinator"].detail.startswith(f"[::1]:{port} answers")
        assert all(check.ok for check in checks.values())
        assert f"--superlink '[::1]:{port}'" in (found.site.folder / "supernode.sh").read_text()
        if listen == "::":
            socket.create_connection(("127.0.0.1", port), 5).close()


def test_nothing_is_signalled_if_the_proxy_does_not_run_here(tmp_path: Path) -> None:
    (tmp_path / "proxy.nginx.pid").write_text(f"{os.getpid()}\n")  # as a container's could be
    assert not reload_nginx(tmp_path)
    (tmp_path / "proxy.nginx.pid").unlink()
    assert not reload_nginx(tmp_path)
