"""Submit an app to a SuperLink, and wait for its run."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tomli_w

from ramet.errors import RametError
from ramet.flower.programs import LINK, Flower

_POLL_INTERVAL = 5.0
_COMPLETED = "finished:completed"


@dataclass(frozen=True)
class Submission:
    """The run that was submitted last, by the logs of Flower's programs."""

    flower: Flower

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
            reason = outcome["status-details"] or outcome["status"]
            raise RametError(f"{reason} See {self.flower.logs}.")

    def _flwr_run(
        self,
        app: Path,
        config: Mapping[str, str | int | float],
        simulated_clients: int,
        on_poll: Callable[[], None],
    ) -> None:
        """Start `flwr run`, and wait until it ends."""
        copied, run_config = self.flower.home / "app", self.flower.logs / "run.toml"
        shutil.copytree(app, copied, dirs_exist_ok=True)
        self.flower.logs.mkdir(parents=True, exist_ok=True)
        run_config.write_text(tomli_w.dumps(config))
        arguments = ["run", str(copied), LINK, "--run-config", str(run_config), "--stream"]
        if simulated_clients:
            arguments += ["--federation-config", _simulation(simulated_clients, self.flower.ray)]
        if self._run_log.exists():
            self._run_log.replace(self.flower.logs / "run-before.log")
        with self.flower.process("run", "flwr", *arguments) as running:
            while running.poll() is None:
                on_poll()
                time.sleep(0.2)

    def run_id(self) -> str | None:
        """Flower's id of the last run that it accepted."""
        log = self._run_log.read_text(errors="replace") if self._run_log.exists() else ""
        started: list[str] = re.findall(r"started run (\d+)", log)
        return started[-1] if started else None

    @property
    def _run_log(self) -> Path:
        return self.flower.logs / "run.log"

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
        run: dict[str, Any] = self.flower.flwr("ls", "--run-id", run_id)["runs"][0]
        return run if run["status"].startswith("finished") else None


def _simulation(clients: int, ray: str | None) -> str:
    """Flower's description of a simulation. A running cluster knows its cores itself."""
    cores = "" if ray else f"init-args-num-cpus={os.cpu_count() or 1} "
    return (
        f"num-supernodes={clients} client-resources-num-cpus=1 client-resources-num-gpus=0.0 "
        f'{cores}init-args-logging-level="ERROR" init-args-log-to-driver=false'
    )
