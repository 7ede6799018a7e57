"""Flower's programs: how they are started, asked and ended."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from ramet.errors import RametError
from ramet.flower.guard import write_program

QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "OMP_NUM_THREADS": "1",
}
"""What every program of Flower is started with."""
_LINK = "ramet"
_STARTING = 60.0
_ASKING = 600.0
_STOPPING = 15.0
_ASKING_AGAIN = 5.0
_WELL = "finished:completed"


@dataclass(frozen=True)
class Flower:
    """Flower's programs, with a home of their own so that they meet nobody else's."""

    home: Path
    logs: Path

    @property
    def environment(self) -> dict[str, str]:
        programs = Path(sys.executable).parent
        return {
            **os.environ,
            "PATH": os.pathsep.join([str(self._own), str(programs), os.environ.get("PATH", "")]),
            "FLWR_HOME": str(self.home),
            **QUIET,
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": str(self.home),
        }

    @property
    def _own(self) -> Path:
        """Programs of ours that come before Flower's."""
        return self.home / "programs"

    @contextmanager
    def superlink(self, port: int, simulated: bool) -> Iterator[None]:
        arguments = ["--insecure", "--host", "127.0.0.1", "--port", str(port)]
        arguments += ["--disable-runtime-dependency-installation"]
        arguments += ["--simulation"] if simulated else []
        with self._process("superlink", "flower-superlink", *arguments) as link:
            self.connect(port)
            if not answers(f"http://127.0.0.1:{port}/health", lambda: link.poll() is None):
                raise RametError(f"the SuperLink did not start. See {self.logs / 'superlink.log'}.")
            yield

    @contextmanager
    def supernode(
        self, client: str, own_port: int, port: int, node: dict[str, str]
    ) -> Iterator[None]:
        config = " ".join(f'{key}="{value}"' for key, value in node.items())
        arguments = ["--insecure", "--superlink", f"127.0.0.1:{port}", "--host", "127.0.0.1"]
        arguments += ["--port", str(own_port), "--node-config", config]
        self._own.mkdir(exist_ok=True)
        write_program(self._own / "flower-superexec", "ramet.flower.warm")
        with self._process(f"supernode-{client}", "flower-supernode", *arguments):
            yield

    def run(
        self,
        app: Path,
        config: Mapping[str, str | int | float],
        simulated_clients: int,
        meanwhile: Callable[[], None],
        link_returns: bool = False,
    ) -> None:
        """`flwr run` an app and wait for its end; an app that failed is an error.

        If `link_returns`, a SuperLink that is gone is waited for: somebody starts it again. And a
        run that outlived the command that began it is not begun a second time, but waited for.
        """
        if not (link_returns and self._goes_on()):
            self._begin(app, config, simulated_clients, meanwhile)
        while (outcome := self._outcome(link_returns)) is None:
            meanwhile()
            time.sleep(_ASKING_AGAIN)
        meanwhile()
        if outcome["status"] != _WELL:
            raise RametError(f"{outcome['status-details'] or outcome['status']} See {self.logs}.")

    def _begin(
        self,
        app: Path,
        config: Mapping[str, str | int | float],
        simulated_clients: int,
        meanwhile: Callable[[], None],
    ) -> None:
        """`flwr run`, as long as it tells of the run."""
        copied, run_config = self.home / "app", self.home / "run.toml"
        shutil.copytree(app, copied, dirs_exist_ok=True)
        run_config.write_text(tomli_w.dumps(config))
        arguments = ["run", str(copied), _LINK, "--stream", "--run-config", str(run_config)]
        if simulated_clients:
            arguments += ["--federation-config", _simulation(simulated_clients)]
        if self._run_log.exists():
            self._run_log.replace(self.logs / "run-before.log")
        with self._process("run", "flwr", *arguments) as running:
            while running.poll() is None:
                meanwhile()
                time.sleep(0.2)

    def sweep(self) -> None:
        """End whatever of ours is left, and see it gone: Ray's daemons outlive their parents."""
        end = time.monotonic() + _STOPPING
        while left := self.processes():
            if time.monotonic() > end:
                raise RametError(f"could not end Flower's processes {left}. End them by hand.")
            for process in left:
                with suppress(ProcessLookupError):  # it went meanwhile
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.05)

    def processes(self) -> list[int]:
        """Those that live, and those that are dying, with this home."""
        mark = f"FLWR_HOME={self.home}\0".encode()
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            with suppress(OSError):  # not ours to read, or gone meanwhile
                if mark in (process / "environ").read_bytes():
                    found.append(int(process.name))
        return found

    @contextmanager
    def _process(
        self, name: str, program: str, *arguments: str
    ) -> Iterator[subprocess.Popen[bytes]]:
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
                process.wait(_STOPPING)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def connect(self, port: int, authority: Path | None = None) -> None:
        """Name the SuperLink on this port of loopback, with TLS if there is an authority."""
        trust = {"root-certificates": str(authority)} if authority else {"insecure": True}
        link = {"address": f"127.0.0.1:{port}", **trust}
        config = {"superlink": {"default": _LINK, _LINK: link}}
        self.home.mkdir(parents=True, exist_ok=True)
        (self.home / "config.toml").write_text(tomli_w.dumps(config))

    def ask(self, *command: str) -> dict[str, Any]:
        """What `flwr COMMAND` says of the SuperLink, as JSON."""
        words = ["flwr", *command, _LINK, "--format", "json"]
        try:
            done = subprocess.run(
                words,
                env=self.environment,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                check=False,
                timeout=_ASKING,
            )
            found: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
        except subprocess.TimeoutExpired as error:
            raise RametError(f"`{' '.join(words)}` gave no answer in {_ASKING:.0f} s.") from error
        except ValueError as error:
            said = (done.stderr or done.stdout).strip()
            raise RametError(f"`{' '.join(words)}` failed: {said or 'no answer'}") from error
        if not found.get("success", True):
            raise RametError(f"`{' '.join(words)}` failed: {found.get('error-message', found)}")
        return found

    def run_number(self) -> str | None:
        """Flower's number of the last run it took."""
        log = self._run_log.read_text(errors="replace") if self._run_log.exists() else ""
        started: list[str] = re.findall(r"started run (\d+)", log)
        return started[-1] if started else None

    @property
    def _run_log(self) -> Path:
        return self.logs / "run.log"

    def _goes_on(self) -> bool:
        """Whether the run of these logs was begun before and is not over."""
        number = self.run_number()
        try:
            return number is not None and self._of_run(number) is None
        except RametError:  # this SuperLink does not know it
            return False

    def _outcome(self, link_returns: bool) -> dict[str, Any] | None:
        """How the run ended, if it did: `flwr run` ends with 0 whatever became of the run."""
        number = self.run_number()
        if number is None:
            raise RametError(f"Flower did not take the run. See {self._run_log}.")
        try:
            return self._of_run(number)
        except RametError:
            if link_returns:
                return None
            raise

    def _of_run(self, number: str) -> dict[str, Any] | None:
        """What Flower says of a run that is over."""
        found: dict[str, Any] = self.ask("ls", "--run-id", number)["runs"][0]
        return found if found["status"].startswith("finished") else None


def _simulation(clients: int) -> str:
    cores = os.cpu_count() or 1
    return (
        f"num-supernodes={clients} client-resources-num-cpus=1 client-resources-num-gpus=0.0 "
        f'init-args-num-cpus={cores} init-args-logging-level="ERROR" init-args-log-to-driver=false'
    )


def answers(
    url: str, alive: Callable[[], bool], authority: Path | None = None, within: float = _STARTING
) -> bool:
    """Wait until this address answers, as long as its program is alive."""
    context = ssl.create_default_context(cafile=authority) if authority else None
    end = time.monotonic() + within
    while alive() and time.monotonic() < end:
        try:
            with urllib.request.urlopen(url, timeout=1, context=context):
                return True
        except OSError:
            time.sleep(0.1)
    return False


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
