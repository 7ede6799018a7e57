"""The SuperNode's connection, against a small HTTPS server. Flower's own gives up on TLS errors."""

from __future__ import annotations

import os
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat
from cryptography.x509.oid import NameOID
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    ActivateNodeResponse,
    PullMessagesRequest,
    PullMessagesResponse,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest, SendNodeHeartbeatResponse
from flwr.proto.message_pb2 import Message
from flwr.supercore.retry import make_simple_http_retry_invoker
from flwr.supernode.fleet_http_client import FleetHttpClient

from ramet.deploy import keys
from ramet.deploy.alive import last_heartbeat
from ramet.flower.contact import Contact
from ramet.flower.patches import connection
from ramet.flower.patches.connection import SiteClient, SiteClients, SteadyClient

EMPTY = PullMessagesResponse().SerializeToString()
ONE_MESSAGE = PullMessagesResponse(messages_list=[Message()]).SerializeToString()
ACCEPTED = SendNodeHeartbeatResponse(success=True).SerializeToString()
UNKNOWN_NODE = SendNodeHeartbeatResponse(success=False).SerializeToString()
PROTOBUF, PAGE, JSON = "application/x-protobuf", "text/html", "application/json"
Answer = tuple[int, str, bytes]


class Coordinator:
    """Serves prepared answers over TLS, the last one for ever."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.answers: list[Answer] = [(200, PROTOBUF, EMPTY)]
        self.calls = 0
        keys.ensure_key(folder / "authority.key")
        keys.ensure_key(folder / "server.key")
        self.authority = keys.make_authority("test", folder / "authority.key").encode()
        self.context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        self.renew_certificate()
        self.server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self.server.socket = self.context.wrap_socket(
            self.server.socket, server_side=True, do_handshake_on_connect=False
        )
        self.address = f"127.0.0.1:{self.server.server_address[1]}"

    def renew_certificate(self) -> None:
        folder = self.folder
        certificate = keys.make_server_certificate(
            "test", "127.0.0.1", folder / "server.key", folder / "authority.key"
        )
        (folder / "server.pem").write_text(certificate)
        self.context.load_cert_chain(folder / "server.pem", folder / "server.key")

    def client(
        self, heartbeat: Path | None = None, certificate: Path | None = None
    ) -> SteadyClient:
        client = self.client_of(SteadyClient, heartbeat, certificate)
        assert isinstance(client, SteadyClient)
        return client

    def client_of(
        self, kind: type[SiteClient], heartbeat: Path | None, certificate: Path | None
    ) -> SiteClient:
        clients = SiteClients(kind, Contact(heartbeat), certificate)
        return clients.from_server_address(self.address, False, self.authority, [])

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        coordinator = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["content-length"]))
                coordinator.calls += 1
                first, *others = coordinator.answers
                coordinator.answers = others or [first]
                status, kind, content = first
                self.send_response(status)
                self.send_header("content-type", kind)
                self.end_headers()
                self.wfile.write(content)

        return Handler


@pytest.fixture
def coordinator(tmp_path: Path) -> Iterator[Coordinator]:
    coordinator = Coordinator(tmp_path)
    serving = threading.Thread(target=coordinator.server.serve_forever, args=(0.05,))
    serving.start()
    try:
        yield coordinator
    finally:
        coordinator.server.shutdown()
        coordinator.server.server_close()
        serving.join()


def expire_certificate(coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(keys, "_SERVER_VALIDITY", timedelta(seconds=-1))
        coordinator.renew_certificate()


def test_an_expired_certificate_is_retried_until_it_is_renewed(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    expire_certificate(coordinator, monkeypatch)
    retry = make_simple_http_retry_invoker()
    flowers = FleetHttpClient.from_server_address(
        coordinator.address, False, coordinator.authority, []
    )
    with pytest.raises(httpx.ConnectError, match="certificate has expired"):
        retry.invoke(flowers.PullMessages, PullMessagesRequest())
    threading.Timer(2.0, coordinator.renew_certificate).start()
    client = coordinator.client()
    client._pause = 3.0
    assert retry.invoke(client.PullMessages, PullMessagesRequest()) == PullMessagesResponse()


def test_a_handshake_that_takes_too_long_is_retried(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connection, "_TIMEOUT", httpx.Timeout(0.2))
    with socket.create_server(("127.0.0.1", 0)) as silent:
        coordinator.address = f"127.0.0.1:{silent.getsockname()[1]}"
        client = coordinator.client()
        with pytest.raises(httpx.ConnectError) as caught:
            client.PullMessages(PullMessagesRequest())
    assert "handshake" in str(caught.value.__cause__)
    assert "ssl" in str(caught.value.__cause__)
    assert "ssl" not in str(caught.value)


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((400, PAGE, b"<html>"), httpx.ConnectError),
        ((403, PAGE, b"<html>"), httpx.ConnectError),
        ((500, PAGE, b"<html>"), httpx.ConnectError),
        ((413, PAGE, b"<html>"), httpx.HTTPStatusError),
        ((403, JSON, b"{}"), httpx.HTTPStatusError),
    ],
)
def test_error_pages_of_the_proxy_are_retried(
    coordinator: Coordinator, answer: Answer, error: type[Exception]
) -> None:
    coordinator.answers = [answer]
    with pytest.raises(error):
        coordinator.client().PullMessages(PullMessagesRequest())


def test_errors_of_the_superlink_are_retried_a_few_times(coordinator: Coordinator) -> None:
    failure = (500, JSON, b'{"detail": "database is locked"}')
    client = coordinator.client()
    coordinator.answers = [failure] * 7 + [(200, PROTOBUF, ONE_MESSAGE), failure]
    for _ in range(7):
        with pytest.raises(httpx.ConnectError):
            client.PullMessages(PullMessagesRequest())
    assert client.PullMessages(PullMessagesRequest()).messages_list
    for _ in range(8):
        with pytest.raises(httpx.ConnectError):
            client.PullMessages(PullMessagesRequest())
    with pytest.raises(httpx.HTTPStatusError):
        client.PullMessages(PullMessagesRequest())


def test_only_accepted_calls_are_heartbeats(coordinator: Coordinator, tmp_path: Path) -> None:
    heartbeat = tmp_path / "news"
    client = coordinator.client(heartbeat)
    client._pause = 3.0
    coordinator.answers = [
        (200, PROTOBUF, EMPTY),
        (200, PROTOBUF, UNKNOWN_NODE),
        (500, JSON, b"{}"),
        (401, JSON, b"{}"),
        (200, PROTOBUF, ACCEPTED),
    ]
    client.PullMessages(PullMessagesRequest())
    assert not client.SendNodeHeartbeat(SendNodeHeartbeatRequest()).success
    with pytest.raises(httpx.ConnectError):
        client.SendNodeHeartbeat(SendNodeHeartbeatRequest())
    with pytest.raises(httpx.HTTPStatusError):
        client.SendNodeHeartbeat(SendNodeHeartbeatRequest())
    assert not heartbeat.exists()
    assert client.SendNodeHeartbeat(SendNodeHeartbeatRequest()).success
    assert heartbeat.exists()
    heartbeat.unlink()
    coordinator.answers = [(200, PROTOBUF, ActivateNodeResponse(node_id=1).SerializeToString())]
    assert client.ActivateNode(ActivateNodeRequest()).node_id == 1
    assert heartbeat.exists()


def test_messages_are_asked_for_quickly_after_a_message_and_slowly_later(
    coordinator: Coordinator, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr(time, "sleep", pauses.append)
    client = coordinator.client()
    coordinator.answers = [(200, PROTOBUF, EMPTY)] * 3 + [(200, PROTOBUF, ONE_MESSAGE)]
    assert client.PullMessages(PullMessagesRequest()).messages_list
    assert pauses == pytest.approx([0.1, 0.15, 0.225])
    pauses.clear()
    coordinator.answers, coordinator.calls = [(200, PROTOBUF, EMPTY)], 0
    assert not client.PullMessages(PullMessagesRequest()).messages_list
    assert pauses == pytest.approx([0.1 * 1.5**n for n in range(9)])  # 0.1 s to 2.6 s
    pauses.clear()
    coordinator.calls = 0
    assert not client.PullMessages(PullMessagesRequest()).messages_list
    assert (pauses, coordinator.calls) == ([], 1)  # then Flower's own 3 s


def test_a_client_certificate_is_read_when_it_appears(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    certificate = tmp_path / "client.pem"
    coordinator.context.verify_mode = ssl.CERT_REQUIRED
    public, private = _client_certificate()
    coordinator.context.load_verify_locations(cadata=public)
    client = coordinator.client(certificate=certificate)
    client._pause = 3.0
    with pytest.raises(httpx.ConnectError):
        client.PullMessages(PullMessagesRequest())
    certificate.write_text("not a certificate")
    with pytest.raises(httpx.ConnectError):
        client.PullMessages(PullMessagesRequest())
    certificate.write_text(public + private)
    with pytest.raises(httpx.ConnectError):
        client.PullMessages(PullMessagesRequest())  # the failure after which it is read
    assert client.PullMessages(PullMessagesRequest()) == PullMessagesResponse()


def _client_certificate() -> tuple[str, str]:
    """A self-signed certificate and its key, as PEM."""
    key = ec.generate_private_key(ec.SECP384R1())
    name, now = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "north")]), datetime.now(UTC)
    builder = x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
    dated = builder.not_valid_before(now - timedelta(1)).not_valid_after(now + timedelta(1))
    certificate = dated.sign(key, hashes.SHA384()).public_bytes(Encoding.PEM)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return certificate.decode(), private.decode()


def test_without_retries_the_certificate_is_shown_and_the_heartbeat_is_noted(
    coordinator: Coordinator, tmp_path: Path
) -> None:
    coordinator.context.verify_mode = ssl.CERT_REQUIRED
    public, private = _client_certificate()
    coordinator.context.load_verify_locations(cadata=public)
    certificate, heartbeat = tmp_path / "client.pem", tmp_path / "news"
    certificate.write_text(public + private)
    client = coordinator.client_of(SiteClient, heartbeat, certificate)
    coordinator.answers = [(200, PROTOBUF, ACCEPTED), (500, JSON, b"{}")]
    assert client.SendNodeHeartbeat(SendNodeHeartbeatRequest()).success
    assert heartbeat.exists()
    with pytest.raises(httpx.HTTPStatusError):
        client.SendNodeHeartbeat(SendNodeHeartbeatRequest())


@contextmanager
def _program(code: str, **variables: str) -> Iterator[subprocess.Popen[str]]:
    program = subprocess.Popen(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        stderr=subprocess.PIPE,
        text=True,
    )
    try:
        yield program
    finally:
        program.kill()
        program.communicate()


MAIN = """
import sys, threading, time
import flwr.supernode.cli as cli
from ramet.flower import contact, supernode
def other_thread():
    time.sleep(600)
def flower_supernode():
    threading.Thread(target=other_thread).start()
    {end}
cli.flower_supernode = flower_supernode
{setting}
supernode.main()
"""


@pytest.mark.parametrize(
    ("end", "setting", "code", "logged"),
    [
        ("return", "", 1, ""),
        ("raise ValueError('a bug')", "", 1, "ValueError: a bug"),
        ("sys.exit(0)", "", 0, ""),
        ("time.sleep(600)", "contact._MAX_SILENCE = 0.5", 1, "has not called the coordinator"),
        ("time.sleep(600)", "contact._MAX_ABSENCE = 0.5", 1, "has not accepted a call"),
    ],
)
def test_the_process_ends_when_its_main_thread_ends_or_it_is_silent(
    tmp_path: Path, end: str, setting: str, code: int, logged: str
) -> None:
    program_code = MAIN.format(end=end, setting=setting)
    with _program(program_code, RAMET_NEWS=str(tmp_path / "news")) as program:
        output = program.communicate(timeout=120)[1]
        assert program.returncode == code
    assert logged in output
    assert last_heartbeat(tmp_path) == (0.0 if setting else None)  # a planned end removes the file
