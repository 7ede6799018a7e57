"""Start, query and stop Flower's programs."""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import signal
import socket
import ssl
import subprocess
import sys
import threading
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
_LINK = "ramet"
_SERVER_PORTS = range(20_000, 32_000)
"""Below the ports that Linux and macOS give to outgoing connections."""
_RANDOM = random.SystemRandom()
_RAY_ADDRESS = "RAY_ADDRESS"
"""The variable from which Ray takes the address of its cluster: Flower has no option for it."""
_START_TIMEOUT = 60.0
_COMMAND_TIMEOUT = 600.0
_STOP_TIMEOUT = 15.0
_POLL_INTERVAL = 5.0
_KEEPER_INTERVAL = 0.5
_RESTART_PAUSES = (0.0, 1.0, 5.0, 15.0)
"""Seconds before a SuperNode that has ended is started again."""
_STEADY = 60.0
"""A SuperNode that has run for so many seconds could be started."""
_COMPLETED = "finished:completed"
Check = Callable[[], None]
"""Raises a RametError if something is wrong."""


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
        with self._process("superlink", "flower-superlink", *arguments) as link:
            self.connect(port)
            if not wait_until_up(f"http://127.0.0.1:{port}/health", lambda: link.poll() is None):
                raise RametError(f"the SuperLink did not start. See {self.logs / 'superlink.log'}.")
            yield

    @contextmanager
    def supernode(self, client: str, port: int, node: dict[str, str]) -> Iterator[Check]:
        """Keep a SuperNode running that connects to the SuperLink on this port.

        Yields a function that raises an error if the SuperNode cannot be started.
        """
        stopped = threading.Event()
        arguments = (client, port, node, stopped)
        keeper = threading.Thread(target=self._keep_supernode_running, args=arguments, daemon=True)
        keeper.start()

        def check() -> None:
            if not keeper.is_alive():
                raise RametError(
                    f"the SuperNode of {client} was started {len(_RESTART_PAUSES) + 1} times, and "
                    f"ended soon each time. See {self.logs / f'supernode-{client}.log'}."
                )

        try:
            yield check
        finally:
            stopped.set()
            keeper.join()

    def _keep_supernode_running(
        self, client: str, port: int, node: dict[str, str], stopped: threading.Event
    ) -> None:
        """Start a SuperNode, and start it again on another port whenever it ends.

        Give up if it ends soon several times in a row.
        """
        arguments = ["-c", "from ramet.flower.supernode import main; main()"]
        arguments += ["--insecure", "--superlink", f"{LOOPBACK}:{port}", "--host", LOOPBACK]
        arguments += ["--node-config", node_config_text(node), "--port"]
        pauses = iter(_RESTART_PAUSES)
        pause: float | None = 0.0
        while pause is not None and not stopped.wait(pause):
            (own_port,) = free_ports(1)
            command, started = (sys.executable, *arguments, str(own_port)), time.monotonic()
            with self._process(f"supernode-{client}", *command) as process:
                while process.poll() is None and not stopped.wait(_KEEPER_INTERVAL):
                    pass
            if time.monotonic() - started > _STEADY:
                pauses = iter(_RESTART_PAUSES)
            pause = next(pauses, None)

    def run(
        self,
        app: Path,
        config: Mapping[str, str | int | float],
        simulated_clients: int,
        on_poll: Callable[[], None],
        superlink_restarts: bool = False,
    ) -> None:
        """`flwr run` an app and wait until it ends; raise an error if it failed.

        With `superlink_restarts`, wait for a SuperLink that is down to be restarted, and wait for a
        run that outlived the command that started it instead of starting it again.
        """
        if not (superlink_restarts and self.in_progress()):
            self._flwr_run(app, config, simulated_clients, on_poll)
        while (outcome := self._outcome(superlink_restarts)) is None:
            on_poll()
            time.sleep(_POLL_INTERVAL)
        on_poll()
        if outcome["status"] != _COMPLETED:
            raise RametError(f"{outcome['status-details'] or outcome['status']} See {self.logs}.")

    def _submission(self, app: Path, config: Mapping[str, str | int | float]) -> list[str]:
        """The arguments of `flwr` that start a run."""
        copied, run_config = self.home / "app", self.logs / "run.toml"
        shutil.copytree(app, copied, dirs_exist_ok=True)
        self.logs.mkdir(parents=True, exist_ok=True)
        run_config.write_text(tomli_w.dumps(config))
        return ["run", str(copied), _LINK, "--run-config", str(run_config)]

    def _flwr_run(
        self,
        app: Path,
        config: Mapping[str, str | int | float],
        simulated_clients: int,
        on_poll: Callable[[], None],
    ) -> None:
        """Start `flwr run`, and wait until it ends."""
        arguments = [*self._submission(app, config), "--stream"]
        if simulated_clients:
            arguments += ["--federation-config", _simulation(simulated_clients, self.ray)]
        if self._run_log.exists():
            self._run_log.replace(self.logs / "run-before.log")
        with self._process("run", "flwr", *arguments) as running:
            while running.poll() is None:
                on_poll()
                time.sleep(0.2)

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
                process.wait(_STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()

    def connect(self, port: int, authority: Path | None = None) -> None:
        """Point `flwr` at the SuperLink on this loopback port, with TLS if `authority` is given."""
        tls = {"root-certificates": str(authority)} if authority else {"insecure": True}
        link = {"address": f"127.0.0.1:{port}", **tls}
        config = {"superlink": {"default": _LINK, _LINK: link}}
        self.home.mkdir(parents=True, exist_ok=True)
        path, text = self.home / "config.toml", tomli_w.dumps(config)
        if not path.exists() or path.read_text() != text:  # a command may just be reading it
            write_atomically(path, text)

    def flwr(self, *command: str) -> dict[str, Any]:
        """Run `flwr COMMAND` on the SuperLink and return its JSON output."""
        words = ["flwr", *command, _LINK, "--format", "json"]
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

    def run_id(self) -> str | None:
        """Flower's id of the last run that it accepted."""
        log = self._run_log.read_text(errors="replace") if self._run_log.exists() else ""
        started: list[str] = re.findall(r"started run (\d+)", log)
        return started[-1] if started else None

    @property
    def _run_log(self) -> Path:
        return self.logs / "run.log"

    def in_progress(self) -> bool:
        """Whether the run in these logs was started earlier and has not ended."""
        run_id = self.run_id()
        try:
            return run_id is not None and self._finished_run(run_id) is None
        except RametError:  # unknown to this SuperLink
            return False

    def _outcome(self, superlink_restarts: bool) -> dict[str, Any] | None:
        """How the run ended, if it did; `flwr run` exits with 0 even if the run failed."""
        run_id = self.run_id()
        if run_id is None:
            raise RametError(f"Flower did not accept the run. See {self._run_log}.")
        try:
            return self._finished_run(run_id)
        except RametError:
            if superlink_restarts:
                return None
            raise

    def _finished_run(self, run_id: str) -> dict[str, Any] | None:
        """Flower's description of a run, or None if the run has not ended."""
        run: dict[str, Any] = self.flwr("ls", "--run-id", run_id)["runs"][0]
        return run if run["status"].startswith("finished") else None


def node_config_text(node: Mapping[str, str]) -> str:
    """The value of a SuperNode's --node-config."""
    return " ".join(f"{key}={_toml_string(value)}" for key, value in node.items())


def _toml_string(text: str) -> str:
    """A string for Flower, which ends it at the first quote, even at an escaped one."""
    escaped = json.dumps(text, ensure_ascii=False)[1:-1].replace('\\"', "\\u0022")
    return f'"{escaped}"'


def _simulation(clients: int, ray: str | None) -> str:
    """Flower's description of a simulation. A running cluster knows its cores itself."""
    cores = "" if ray else f"init-args-num-cpus={os.cpu_count() or 1} "
    return (
        f"num-supernodes={clients} client-resources-num-cpus=1 client-resources-num-gpus=0.0 "
        f'{cores}init-args-logging-level="ERROR" init-args-log-to-driver=false'
    )


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
