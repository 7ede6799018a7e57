"""A real HTTP proxy that only forwards CONNECT requests, as hospitals have them."""

from __future__ import annotations

import re
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from ramet.flower.programs import free_ports

TINYPROXY = shutil.which("tinyproxy")


@dataclass(frozen=True)
class HttpProxy:
    port: int
    log: Path
    login: str = ""

    @property
    def url(self) -> str:
        return f"http://{self.login}{'@' if self.login else ''}127.0.0.1:{self.port}"

    def connections(self) -> list[str]:
        """The targets of the requests so far, such as `localhost:8443`."""
        return re.findall(r"CONNECT (\S+) HTTP", self.log.read_text())


@contextmanager
def http_proxy(folder: Path, allowed: Sequence[int], login: str = "") -> Iterator[HttpProxy]:
    """Start a proxy that forwards connections to these ports only."""
    assert TINYPROXY
    folder.mkdir(parents=True, exist_ok=True)
    (port,) = free_ports(1)
    proxy = HttpProxy(port, folder / "tinyproxy.log", login)
    lines = [f"Port {port}", "Listen 127.0.0.1", f'LogFile "{proxy.log}"', "LogLevel Connect"]
    lines += [f"ConnectPort {number}" for number in allowed]
    lines += [f"BasicAuth {login.replace(':', ' ')}"] if login else []
    config = folder / "tinyproxy.conf"
    config.write_text("\n".join(lines) + "\n")
    process = subprocess.Popen([TINYPROXY, "-d", "-c", str(config)], stdout=subprocess.DEVNULL)
    try:
        _wait_for(port)
        yield proxy
    finally:
        process.terminate()
        process.wait()


def _wait_for(port: int) -> None:
    end = time.monotonic() + 20
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            assert time.monotonic() < end
            time.sleep(0.05)
