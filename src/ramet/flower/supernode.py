"""A SuperNode that reconnects after every failure and records when the coordinator last answered.

Flower's SuperNode ends its main thread after a TLS error such as an expired certificate, but its
other threads keep the process running, and the site stays offline. Here such errors are retried,
the last accepted heartbeat is the modification time of a file, and a process that no longer calls
the coordinator ends, so that its supervisor restarts it. While rounds follow each other, it also
asks for messages more often than every three seconds. Everything else is Flower's
`flower-supernode`.
"""

from __future__ import annotations

import importlib
import os
import ssl
import sys
import threading
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from logging import ERROR, WARNING
from pathlib import Path

import httpx
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    ActivateNodeResponse,
    PullMessagesRequest,
    PullMessagesResponse,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest, SendNodeHeartbeatResponse
from flwr.supercore import log
from flwr.supercore.protobuf.client import ProtobufClientInterceptor, ProtobufRequestContext
from flwr.supernode.fleet_http_client import FleetHttpClient

from ramet.errors import RametError
from ramet.flower.guard import CERTIFICATE_VARIABLE, NEWS_VARIABLE
from ramet.flower.node_state import use_steady_state
from ramet.flower.waits import find_replies_quickly, pull_objects_quickly

_CONNECTION = "flwr.supernode.fleet_http_connection"
_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_FIRST_PAUSE, _LAST_PAUSE, _PAUSE_GROWTH = 0.1, 3.0, 1.5
"""Seconds between two requests for messages; the last is Flower's own pause."""
_MAX_SILENCE = 90.0
"""Seconds without a call, after which the process ends. Calls are at most 70 s apart."""
_MAX_ABSENCE = 900.0
"""Seconds without an accepted call, after which the process ends in case a restart helps.

Longer than a round waits for replies by default: a restart loses the reply to the last message.
"""
_TOO_LARGE = 413
_MOST_SERVER_ERRORS = 8
"""How often in a row an error of the SuperLink, such as a locked database, may be temporary."""


class Contact:
    """When the coordinator was last called, and when it last accepted a call."""

    def __init__(self, news: Path | None) -> None:
        self._news = news
        self._called = self._accepted = time.monotonic()

    def begin(self) -> None:
        """Create the file without news: its time is 0."""
        if self._news:
            self._news.touch()
            os.utime(self._news, (0, 0))

    def call(self) -> None:
        self._called = time.monotonic()

    def accept(self) -> None:
        self._accepted = time.monotonic()
        if self._news:
            self._news.touch()

    def end(self) -> None:
        """Remove the file."""
        if self._news:
            self._news.unlink(missing_ok=True)

    def problem(self) -> str:
        """Why the process must restart, if it must."""
        now = time.monotonic()
        if now - self._called > _MAX_SILENCE:
            return f"this SuperNode has not called the coordinator for {_MAX_SILENCE:.0f} s"
        if now - self._accepted > _MAX_ABSENCE:
            return f"the coordinator has not accepted a call for {_MAX_ABSENCE:.0f} s"
        return ""


class SteadyClient(FleetHttpClient):
    """Turns final errors of the connection into errors that Flower retries."""

    def __init__(
        self,
        url: str,
        contact: Contact,
        verify: Callable[[], ssl.SSLContext | bool],
        interceptors: Sequence[ProtobufClientInterceptor],
    ) -> None:
        super().__init__(url, interceptors=interceptors, verify=False)
        self._contact = contact
        self._verify = verify
        self._pause = _FIRST_PAUSE
        self._server_errors: Counter[str] = Counter()
        self._client = self._new_client()

    def ActivateNode(self, request: ActivateNodeRequest) -> ActivateNodeResponse:  # noqa: N802
        self._contact.call()
        response = super().ActivateNode(request)
        self._contact.accept()
        return response

    def SendNodeHeartbeat(  # noqa: N802
        self, request: SendNodeHeartbeatRequest
    ) -> SendNodeHeartbeatResponse:
        """Send a heartbeat. A status other than 401 would end Flower's thread for heartbeats."""
        self._contact.call()
        try:
            response = super().SendNodeHeartbeat(request)
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.UNAUTHORIZED:
                raise
            raise _retryable(f"status {error.response.status_code}") from error
        if response.success:
            self._contact.accept()
        return response

    def PullMessages(self, request: PullMessagesRequest) -> PullMessagesResponse:  # noqa: N802
        """Pull messages; soon after the last one, ask several times before answering 'none'."""
        while not (response := super().PullMessages(request)).messages_list:
            if self._pause >= _LAST_PAUSE:
                return response
            time.sleep(self._pause)
            self._pause *= _PAUSE_GROWTH
        self._pause = _FIRST_PAUSE
        return response

    def _send(self, context: ProtobufRequestContext, *, stream: bool = False) -> httpx.Response:
        try:
            response = super()._send(context, stream=stream)
        except httpx.TransportError as error:
            self._reconnect()
            raise _retryable(f"{context.rpc_method}: {error!r}") from error
        if _is_from_proxy(response):
            raise _retryable(f"{context.rpc_method}: status {response.status_code} from the proxy")
        if self._is_temporary(context.rpc_method, response):
            raise _retryable(f"{context.rpc_method}: status {response.status_code}")
        return response

    def _is_temporary(self, method: str, response: httpx.Response) -> bool:
        """Whether to repeat a call at which the SuperLink failed; Flower would drop a message."""
        if not response.is_server_error:
            self._server_errors[method] = 0
            return False
        self._server_errors[method] += 1
        return self._server_errors[method] <= _MOST_SERVER_ERRORS

    def _reconnect(self) -> None:
        """Read certificates again. Other threads may still use the old client."""
        try:
            self._client = self._new_client()
        except OSError as error:  # including ssl.SSLError
            log(ERROR, "cannot read this site's certificates: %r", error)

    def _new_client(self) -> httpx.Client:
        return httpx.Client(verify=self._verify(), timeout=_TIMEOUT, follow_redirects=True)


@dataclass(frozen=True)
class SteadyClients:
    """Creates clients; takes the place of `FleetHttpClient`, whose constructor Flower calls."""

    contact: Contact
    certificate: Path | None = None

    def from_server_address(
        self,
        server_address: str,
        insecure: bool,
        root_certificates: bytes | str | None,
        interceptors: Sequence[ProtobufClientInterceptor],
    ) -> SteadyClient:
        if insecure:
            return SteadyClient(
                f"http://{server_address}", self.contact, lambda: False, interceptors
            )
        return SteadyClient(
            f"https://{server_address}",
            self.contact,
            lambda: _tls_context(root_certificates, self.certificate),
            interceptors,
        )


def _tls_context(authority: bytes | str | None, certificate: Path | None) -> ssl.SSLContext:
    if isinstance(authority, bytes):
        context = ssl.create_default_context(cadata=authority.decode("ascii"))
    else:
        context = ssl.create_default_context(cafile=authority)
    if certificate and certificate.exists():
        context.load_cert_chain(certificate)
    return context


def _retryable(reason: str) -> httpx.ConnectError:
    """An error that Flower retries: it gives up if the text contains "ssl", "tls" or the like."""
    log(WARNING, "no answer from the coordinator: %s", reason)
    return httpx.ConnectError("no answer from the coordinator")


def _is_from_proxy(response: httpx.Response) -> bool:
    """Whether this is an error page of nginx, which Flower would take for an answer."""
    is_page = response.headers.get("content-type", "").startswith("text/html")
    return is_page and response.is_error and response.status_code != _TOO_LARGE


def use_steady_client(clients: SteadyClients) -> None:
    """Make Flower's SuperNode use this client; raise an error if Flower has moved its own."""
    connection = importlib.import_module(_CONNECTION)
    if getattr(connection, "FleetHttpClient", None) is not FleetHttpClient:
        raise RametError(
            f"{_CONNECTION} has no FleetHttpClient. Install the version of Flower that Ramet needs."
        )
    connection.FleetHttpClient = clients  # type: ignore[attr-defined]


def end_on_problem(contact: Contact, interval: float = 1.0) -> None:
    """End the process when the contact has a problem."""
    while not (problem := contact.problem()):
        time.sleep(interval)
    log(ERROR, "%s; this process ends", problem)
    os._exit(1)


def main() -> None:
    """Run `flower-supernode`; when its main thread ends, the whole process ends."""
    from flwr.supernode.cli import flower_supernode

    contact = Contact(_path(NEWS_VARIABLE))
    contact.begin()
    use_steady_client(SteadyClients(contact, _path(CERTIFICATE_VARIABLE)))
    use_steady_state()
    find_replies_quickly()
    pull_objects_quickly("flwr.supernode.start_client_internal", "pull_objects")
    threading.Thread(target=end_on_problem, args=(contact,), daemon=True).start()
    code = 1
    try:
        flower_supernode()
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else 1
    except BaseException:  # noqa: BLE001 (the process ends below)
        traceback.print_exc()
    finally:
        contact.end()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _path(variable: str) -> Path | None:
    value = os.environ.get(variable)
    return Path(value) if value else None


if __name__ == "__main__":
    main()
