"""A SuperNode's connection that shows the site's certificate, and one that survives failures.

Flower's SuperNode shows no certificate. It ends its main thread after a TLS error such as an
expired certificate, but its other threads keep the process running, and the site stays offline.
Here such errors are retried. While rounds follow each other, it also asks for messages more often
than every three seconds.
"""

from __future__ import annotations

import ssl
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from logging import ERROR, WARNING
from pathlib import Path
from typing import Any

import httpx
from flwr.common import log
from flwr.proto.fleet_pb2 import (
    ActivateNodeRequest,
    ActivateNodeResponse,
    PullMessagesRequest,
    PullMessagesResponse,
)
from flwr.proto.heartbeat_pb2 import SendNodeHeartbeatRequest, SendNodeHeartbeatResponse
from flwr.supercore.protobuf.client import ProtobufClientInterceptor, ProtobufRequestContext
from flwr.supernode.fleet_http_client import FleetHttpClient

from ramet.flower.contact import Contact

_TIMEOUT = httpx.Timeout(30.0, connect=10.0)
_FIRST_PAUSE, _LAST_PAUSE, _PAUSE_GROWTH = 0.1, 3.0, 1.5
"""Seconds between two requests for messages; the last is Flower's own pause."""
_TOO_LARGE = 413
_MOST_SERVER_ERRORS = 8
"""How often in a row an error of the SuperLink, such as a locked database, may be temporary."""


class SiteClient(FleetHttpClient):
    """Shows the site's certificate, and notes when the coordinator was called and accepted it."""

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
        self._client = self._new_client()

    def ActivateNode(self, request: ActivateNodeRequest) -> ActivateNodeResponse:  # noqa: N802
        self._contact.call()
        response = super().ActivateNode(request)
        self._contact.accept()
        return response

    def SendNodeHeartbeat(  # noqa: N802
        self, request: SendNodeHeartbeatRequest
    ) -> SendNodeHeartbeatResponse:
        self._contact.call()
        response = super().SendNodeHeartbeat(request)
        if response.success:
            self._contact.accept()
        return response

    def _new_client(self) -> httpx.Client:
        return httpx.Client(verify=self._verify(), timeout=_TIMEOUT, follow_redirects=True)


class SteadyClient(SiteClient):
    """Turns final errors of the connection into errors that Flower retries."""

    def __init__(self, *given: Any) -> None:
        super().__init__(*given)
        self._pause = _FIRST_PAUSE
        self._server_errors: Counter[str] = Counter()

    def SendNodeHeartbeat(  # noqa: N802
        self, request: SendNodeHeartbeatRequest
    ) -> SendNodeHeartbeatResponse:
        """Send a heartbeat. A status other than 401 would end Flower's thread for heartbeats."""
        try:
            return super().SendNodeHeartbeat(request)
        except httpx.HTTPStatusError as error:
            if error.response.status_code == httpx.codes.UNAUTHORIZED:
                raise
            raise _retryable(f"status {error.response.status_code}") from error

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


@dataclass(frozen=True)
class SiteClients:
    """Creates clients; takes the place of `FleetHttpClient`, whose constructor Flower calls."""

    kind: type[SiteClient]
    contact: Contact
    certificate: Path | None = None

    def from_server_address(
        self,
        server_address: str,
        insecure: bool,
        root_certificates: bytes | str | None,
        interceptors: Sequence[ProtobufClientInterceptor],
    ) -> SiteClient:
        def verify() -> ssl.SSLContext | bool:
            return not insecure and _tls_context(root_certificates, self.certificate)

        url = f"http{'' if insecure else 's'}://{server_address}"
        return self.kind(url, self.contact, verify, interceptors)


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


def show_certificate(contact: Contact, certificate: Path | None) -> None:
    """Make Flower's SuperNode use a client that shows the site's certificate."""
    _use(SiteClients(SiteClient, contact, certificate))


def reconnect(contact: Contact, certificate: Path | None) -> None:
    """Make Flower's SuperNode use a client that shows the certificate and survives failures."""
    _use(SiteClients(SteadyClient, contact, certificate))


def _use(clients: SiteClients) -> None:
    connection: Any = import_module("flwr.supernode.fleet_http_connection")
    connection.FleetHttpClient = clients
