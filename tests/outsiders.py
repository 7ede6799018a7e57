"""Slow connections to a proxy from clients without a certificate, to test that it closes them.

    python tests/outsiders.py PORT AUTHORITY COUNT KIND...

A separate process, so that it does not slow its test down. When a connection is closed, a new one
is opened after `PAUSE` seconds. Prints a JSON line per second with the number of open connections,
and of connections that were opened and closed so far.
"""

from __future__ import annotations

import asyncio
import json
import resource
import ssl
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.client import HTTPSConnection
from pathlib import Path
from tempfile import TemporaryFile
from typing import IO

PATH = "/v1/fleet/push-object"
PAUSE = 2.0
SILENT, IDLE, HEADER, BODY = "silent", "idle", "header", "body"
"""No handshake; only a handshake; a header that does not end; a body that does not end."""


class Slow:
    """A number of connections of the same kinds."""

    def __init__(self, port: int, authority: Path, kinds: list[str]) -> None:
        self._port, self._kinds = port, kinds
        self._context = ssl.create_default_context(cafile=authority)
        self.counts: Counter[str] = Counter(open=0, opened=0, closed=0)

    async def hold(self, count: int) -> None:
        kinds = [self._kinds[number % len(self._kinds)] for number in range(count)]
        await asyncio.gather(self._report(), *(self._repeat(kind) for kind in kinds))

    async def _report(self) -> None:
        while True:
            print(json.dumps(self.counts), flush=True)  # noqa: T201
            await asyncio.sleep(1)

    async def _repeat(self, kind: str) -> None:
        while True:
            with suppress(OSError):
                await self._connect(kind)
            await asyncio.sleep(PAUSE)

    async def _connect(self, kind: str) -> None:
        context = None if kind == SILENT else self._context
        name = None if kind == SILENT else "localhost"
        reader, writer = await asyncio.open_connection(
            "127.0.0.1", self._port, ssl=context, server_hostname=name
        )
        self.counts.update(open=1, opened=1)
        sending = asyncio.create_task(_send_slowly(kind, writer))
        try:
            while await reader.read(4096):
                pass
        finally:
            self.counts.update(open=-1, closed=1)
            sending.cancel()
            writer.close()


async def _send_slowly(kind: str, writer: asyncio.StreamWriter) -> None:
    if kind in (HEADER, BODY):
        writer.write(f"POST {PATH} HTTP/1.1\r\nHost: localhost\r\n".encode())
        writer.write(b"Content-Length: 1000000\r\n\r\n" if kind == BODY else b"Slow: ")
        while True:
            await asyncio.sleep(1)
            writer.write(b"0")


class Outsiders:
    """The process, and what it counted."""

    def __init__(self, output: IO[bytes]) -> None:
        self._output = output
        self.most_open = 0

    def counts(self) -> dict[str, int]:
        self._output.seek(0)
        lines = [json.loads(line) for line in self._output.read().splitlines(keepends=True)[:-1]]
        self.most_open = max((line["open"] for line in lines), default=0)
        return lines[-1] if lines else {}


@contextmanager
def slow_connections(port: int, authority: Path, count: int, *kinds: str) -> Iterator[Outsiders]:
    """Hold slow connections, and wait until most of them have been opened."""
    words = [sys.executable, __file__, str(port), str(authority), str(count), *kinds]
    with TemporaryFile() as output, subprocess.Popen(words, stdout=output) as process:
        outsiders = Outsiders(output)
        end = time.monotonic() + 60
        try:
            while outsiders.counts().get("opened", 0) < count:
                assert process.poll() is None
                assert time.monotonic() < end, outsiders.counts()
                time.sleep(0.5)
            yield outsiders
            outsiders.counts()
        finally:
            process.terminate()


def post(port: int, authority: Path, size: int) -> int | None:
    """The status of a large request without a certificate; None if the connection was closed."""
    context = ssl.create_default_context(cafile=authority)
    connection = HTTPSConnection("localhost", port, timeout=30, context=context)
    try:
        connection.request("POST", PATH, body=bytes(size))
    except OSError:  # the proxy has answered and closed the connection
        return None
    try:
        return connection.getresponse().status
    finally:
        connection.close()


def main() -> None:
    _, most_files = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most_files, most_files))
    port, authority, count, *kinds = sys.argv[1:]
    asyncio.run(Slow(int(port), Path(authority), kinds).hold(int(count)))


if __name__ == "__main__":
    main()
