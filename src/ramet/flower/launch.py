"""Start what a Flower run needs on this machine, wait for the run, and stop all of it.

`ray`: a SuperLink in simulation mode, which starts Ray. `superlink`: a real SuperLink and one
SuperNode per client. Either way the run itself is Flower's own `flwr run` of the thin app.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import tomli_w

from ramet.engine import Observer
from ramet.errors import RametError
from ramet.flower import THIN_APP
from ramet.flower.records import to_run_config
from ramet.run_folder import RunFolder

_LINK = "ramet"
_STARTING = 60.0
_STOPPING = 15.0


def launch(folder: RunFolder, observe: Observer) -> None:
    """Run (or go on with) the run of this folder over Flower, watching its rounds."""
    with ExitStack() as stack:
        stack.enter_context(folder.locked("launch"))
        _end_orphans(folder)
        home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ramet-")))
        _home_note(folder).write_text(str(home))
        flower = Flower(home, folder.path / "logs")
        stack.callback(flower.sweep)
        experiment = folder.experiment()
        settings, clients = experiment.settings, experiment.clients
        port, *node_ports = free_ports(1 + len(clients))
        simulated = settings.engine == "ray"
        stack.enter_context(flower.superlink(port, simulated))
        if not simulated:
            for client, own_port in zip(clients, node_ports, strict=True):
                data = str(experiment.data_of(client))
                node = {"client": client, "data": data, "state": str(folder.path)}
                stack.enter_context(flower.supernode(client, own_port, port, node))
        flower.run(
            app=THIN_APP,
            config=to_run_config(settings, folder.path),
            simulated_clients=len(clients) if simulated else 0,
            meanwhile=_reporter(folder, observe),
        )


def _end_orphans(folder: RunFolder) -> None:
    """A launcher that was killed leaves its processes behind; nobody else can end them."""
    note = _home_note(folder)
    if note.exists():
        home = Path(note.read_text())
        Flower(home, folder.path / "logs").sweep()
        shutil.rmtree(home, ignore_errors=True)


def _home_note(folder: RunFolder) -> Path:
    return folder.path / "flower-home.txt"


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
            "PATH": f"{programs}{os.pathsep}{os.environ.get('PATH', '')}",
            "FLWR_HOME": str(self.home),
            "FLWR_TELEMETRY_ENABLED": "0",
            "FLWR_DISABLE_UPDATE_CHECK": "1",
            "FLWR_SUPEREXEC_TASK_POLL_INTERVAL": "0.1",
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": str(self.home),
            "OMP_NUM_THREADS": "1",
        }

    @contextmanager
    def superlink(self, port: int, simulated: bool) -> Iterator[None]:
        arguments = ["--insecure", "--host", "127.0.0.1", "--port", str(port)]
        arguments += ["--disable-runtime-dependency-installation"]
        arguments += ["--simulation"] if simulated else []
        with self._process("superlink", "flower-superlink", *arguments) as link:
            self._write_connection(port)
            self._wait_for(link, port)
            yield

    @contextmanager
    def supernode(
        self, client: str, own_port: int, port: int, node: dict[str, str]
    ) -> Iterator[None]:
        config = " ".join(f'{key}="{value}"' for key, value in node.items())
        arguments = ["--insecure", "--superlink", f"127.0.0.1:{port}", "--host", "127.0.0.1"]
        arguments += ["--port", str(own_port), "--node-config", config]
        with self._process(f"supernode-{client}", "flower-supernode", *arguments):
            yield

    def run(
        self,
        app: Path,
        config: Mapping[str, str | int | float],
        simulated_clients: int,
        meanwhile: Callable[[], None],
    ) -> None:
        """`flwr run` an app and wait for its end; an app that failed is an error."""
        copied, run_config = self.home / "app", self.home / "run.toml"
        shutil.copytree(app, copied)
        run_config.write_text(tomli_w.dumps(config))
        arguments = ["run", str(copied), _LINK, "--stream", "--run-config", str(run_config)]
        if simulated_clients:
            arguments += ["--federation-config", _simulation(simulated_clients)]
        with self._process("run", "flwr", *arguments) as running:
            while running.poll() is None:
                meanwhile()
                time.sleep(0.2)
        meanwhile()
        self._check_outcome()

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

    def _write_connection(self, port: int) -> None:
        link = {"address": f"127.0.0.1:{port}", "insecure": True}
        config = {"superlink": {"default": _LINK, _LINK: link}}
        (self.home / "config.toml").write_text(tomli_w.dumps(config))

    def _wait_for(self, link: subprocess.Popen[bytes], port: int) -> None:
        end = time.monotonic() + _STARTING
        while link.poll() is None and time.monotonic() < end:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=1):
                    return
            except OSError:
                time.sleep(0.1)
        raise RametError(f"the SuperLink did not start. See {self.logs / 'superlink.log'}.")

    def _check_outcome(self) -> None:
        """`flwr run` ends with 0 even where the run failed, so ask for its status."""
        log = self.logs / "run.log"
        started = re.findall(r"started run (\d+)", log.read_text(errors="replace"))
        if not started:
            raise RametError(f"Flower did not take the run. See {log}.")
        listing = subprocess.run(
            ["flwr", "ls", _LINK, "--run-id", started[-1], "--format", "json"],
            env=self.environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
        )
        try:
            found = json.loads(listing.stdout)["runs"][0]
        except (ValueError, KeyError, IndexError) as error:
            raise RametError(f"Flower lost the run's status. See {self.logs}.") from error
        if found["status"] != "finished:completed":
            raise RametError(f"{found['status-details'] or found['status']} See {self.logs}.")


def _simulation(clients: int) -> str:
    cores = os.cpu_count() or 1
    return (
        f"num-supernodes={clients} client-resources-num-cpus=1 client-resources-num-gpus=0.0 "
        f'init-args-num-cpus={cores} init-args-logging-level="ERROR" init-args-log-to-driver=false'
    )


def _reporter(folder: RunFolder, observe: Observer) -> Callable[[], None]:
    """Observes the rounds that have come into the folder since it was last called."""
    last = max((record.round for record in folder.records()), default=0)

    def report() -> None:
        nonlocal last
        for record in folder.records():
            if record.round > last:
                last = record.round
                observe(record)

    return report


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for one in sockets:
            one.bind(("127.0.0.1", 0))
        return [one.getsockname()[1] for one in sockets]
