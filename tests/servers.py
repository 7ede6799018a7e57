"""Servers for tests: what rules are told in a round, and a server behind the real certificate."""

from __future__ import annotations

import ssl
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.server import HTTPServer
from pathlib import Path
from threading import Thread

from ramet.payload import Payload
from ramet.randomness import Randomness
from ramet.rules.merging import Reply
from ramet.rules.server import Server


def server(number: int = 1, *clients: str) -> Server:
    return Server(clients or ("a", "b", "c", "d"), Randomness(0, "the server", number))


@contextmanager
def serving_tls(server: HTTPServer, folder: Path) -> Iterator[None]:
    """Serve in a thread, with the certificate of the coordinator in this folder."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    server.socket = context.wrap_socket(server.socket, server_side=True)
    serving = Thread(target=server.serve_forever)
    serving.start()
    try:
        yield
    finally:
        server.shutdown()
        server.server_close()
        serving.join()


def replied(pairs: Iterable[tuple[str, Payload]]) -> list[Reply]:
    """Replies of clients, given by name and message."""
    return [Reply(client, message) for client, message in pairs]
