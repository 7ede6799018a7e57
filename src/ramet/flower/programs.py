"""Start, query and stop Flower's programs."""

from __future__ import annotations

import json
import os
import random
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.request import HTTPSHandler, ProxyHandler, build_opener, getproxies

import tomli_w

from ramet.disk import write_atomically
from ramet.errors import RametError
from ramet.flower import QUIET
from ramet.flower.guard import write_program

LOOPBACK = "127.0.0.1"
"""Never reached through an HTTP proxy, whatever the environment says."""
LINK = "ramet"
"""The name of the SuperLink in Flower's configuration."""
_SERVER_PORTS = range(20_000, 32_000)
"""Below the ports that Linux and macOS give to outgoing connections."""
_RANDOM = random.SystemRandom()
_RAY_ADDRESS = "RAY_ADDRESS"
"""The variable from which Ray takes the address of its cluster: Flower has no option for it."""
_START_TIMEOUT = 60.0
_COMMAND_TIMEOUT = 600.0
_STOP_TIMEOUT = 15.0


@dataclass(frozen=True)
class Flower:
    """Flower's programs, with their own `FLWR_HOME` to isolate them from other installations."""

    home: Path
    logs: Path
    ray: str | None = None
    """The address of the Ray cluster that simulates clients; None to start one for each run."""

    @property
    def environment(self) -> dict[str, str]:
        programs = Path(sys.executable).parent
        inherited = {name: text for name, text in os.environ.items() if name != _RAY_ADDRESS}
        return {
            **inherited,
            "PATH": os.pathsep.join(
                [str(self._overrides), str(programs), os.environ.get("PATH", "")]
            ),
            "FLWR_HOME": str(self.home),
            "no_proxy": f"{LOOPBACK},{getproxies().get('no', '')}",
            **QUIET,
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
            "RAY_USAGE_STATS_ENABLED": "0",
            **({_RAY_ADDRESS: self.ray} if self.ray else {"RAY_TMPDIR": str(self.home)}),
        }

    @property
    def _overrides(self) -> Path:
        """A folder with programs of Ramet that take precedence over Flower's."""
        return self.home / "programs"

    @contextmanager
    def superlink(self, port: int, simulated: bool) -> Iterator[None]:
        arguments = ["--insecure", "--host", "127.0.0.1", "--port", str(port)]
        arguments += ["--disable-runtime-dependency-installation"]
        arguments += ["--simulation"] if simulated else []
        self._overrides.mkdir(parents=True, exist_ok=True)
        write_program(self._overrides / "flower-superexec", "ramet.flower.warm")
        with self.process("superlink", "flower-superlink", *arguments) as link:
            self.connect(port)
            if not wait_until_up(f"http://127.0.0.1:{port}/health", lambda: link.poll() is None):
                raise RametError(f"the SuperLink did not start. See {self.logs / 'superlink.log'}.")
            yield

    def kill_leftovers(self) -> None:
        """Kill all processes with this home, and wait: Ray's daemons outlive their parents."""
        end = time.monotonic() + _STOP_TIMEOUT
        while remaining := self.processes():
            if time.monotonic() > end:
                raise RametError(
                    f"could not kill Flower's processes {remaining}. Kill them by hand."
                )
            for process in remaining:
                with suppress(ProcessLookupError):  # it has ended already
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.05)

    def processes(self) -> list[int]:
        """Ids of the processes with this home, including those that are still exiting."""
        own = f"FLWR_HOME={self.home}\0".encode()
        pids = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # another user's process, or one that has ended
                if own in (process / "environ").read_bytes():
                    pids.append(int(process.name))
        return pids

    @contextmanager
    def process(
        self, name: str, program: str, *arguments: str
    ) -> Iterator[subprocess.Popen[bytes]]:
        """Run a program until the block ends, and log what it prints."""
        self.logs.mkdir(parents=True, exist_ok=True)
        with (self.logs / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(
                [str(Path(sys.executable).parent / program), *arguments],
                env=self.environment,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            yield process
        finally:
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def connect(self, port: int, authority: Path | None = None) -> None:
        """Point `flwr` at the SuperLink on this loopback port, with TLS if `authority` is given."""
        tls = {"root-certificates": str(authority)} if authority else {"insecure": True}
        link = {"address": f"127.0.0.1:{port}", **tls}
        config = {"superlink": {"default": LINK, LINK: link}}
        self.home.mkdir(parents=True, exist_ok=True)
        path, text = self.home / "config.toml", tomli_w.dumps(config)
        if not path.exists() or path.read_text() != text:  # a command may just be reading it
            write_atomically(path, text)

    def flwr(self, *command: str) -> dict[str, Any]:
        """Run `flwr COMMAND` on the SuperLink and return its JSON output."""
        words = ["flwr", *command, LINK, "--format", "json"]
        try:
            done = subprocess.run(
                words,
                cwd=self.home,  # Flower takes a folder that is named like the link for an app
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_COMMAND_TIMEOUT,
            )
            answer: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
        except subprocess.TimeoutExpired as error:
            raise RametError(
                f"`{' '.join(words)}` did not answer within {_COMMAND_TIMEOUT:.0f} s."
            ) from error
        except ValueError as error:
            output = (done.stderr or done.stdout).strip()
            raise RametError(f"`{' '.join(words)}` failed: {output or 'no output'}") from error
        if not answer.get("success", True):
            raise RametError(f"`{' '.join(words)}` failed: {answer.get('error-message', answer)}")
        return answer


def node_config_text(node: Mapping[str, str]) -> str:
    """The value of a SuperNode's --node-config."""
    return " ".join(f"{key}={_toml_string(value)}" for key, value in node.items())


def _toml_string(text: str) -> str:
    """A string for Flower, which ends it at the first quote, even at an escaped one."""
    escaped = json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', "\\u0022")
    return f'"{escaped}"'


def check_ray(address: str) -> None:
    """Check that a Ray cluster listens at this address."""
    host, _, port = address.rpartition(":")
    if not (host and port.isdecimal()) or "/" in host:
        raise RametError(f"'{address}' is not the address of a Ray cluster, such as 10.0.0.1:6379.")
    try:
        socket.create_connection((host, int(port)), timeout=_START_TIMEOUT).close()
    except (OSError, OverflowError) as error:
        raise RametError(
            f"no Ray cluster answers at {address} ({error}). Start its first machine with "
            "`ray start --head --port=6379`, and the others with `ray start --address=…`."
        ) from error


def wait_until_up(
    url: str,
    alive: Callable[[], bool],
    authority: Path | None = None,
    within: float = _START_TIMEOUT,
) -> bool:
    """Wait until this URL answers; False if its program ends or `within` seconds pass first."""
    context = ssl.create_default_context(cafile=authority) if authority else None
    opener = build_opener(ProxyHandler({}), HTTPSHandler(context=context))
    end = time.monotonic() + within
    while alive() and time.monotonic() < end:
        try:
            with opener.open(url, timeout=1):
                return True
        except OSError:
            time.sleep(0.1)
    return False


def free_ports(count: int) -> list[int]:
    """Ports that no program listens on.

    Port 0 would give one that a connection of another program may take before it is used.
    """
    candidates = _RANDOM.sample(_SERVER_PORTS, len(_SERVER_PORTS))
    return list(islice(filter(_is_free, candidates), count))


def _is_free(port: int) -> bool:
    with socket.socket() as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((LOOPBACK, port))
        except OSError:
            return False
    return True
