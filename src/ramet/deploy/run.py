"""Submit a run with all sites at the coordinator, and wait for it."""

from __future__ import annotations

import time
from contextlib import suppress
from logging import INFO
from pathlib import Path

from ramet.deploy.coordinator import Coordinator
from ramet.deploy.side import Say
from ramet.engine import Observer
from ramet.errors import RametError
from ramet.events import events_written_to, log_event, outcome_logged
from ramet.experiment import RunFolder
from ramet.flower import THIN_APP
from ramet.flower.launch import reporter
from ramet.flower.programs import Flower
from ramet.flower.records import to_run_config
from ramet.metrics import Record


def run_consortium(
    side: Coordinator, path: Path, data: Path, patience: float, observe: Observer, say: Say
) -> RunFolder:
    """Run the consortium's method, or resume the run in `path`, and wait until it ends.

    The server app creates the folder once the sites have described their data. Every reply must be
    signed by the key with which the site was admitted. Gives up if no round ends for `patience`
    seconds. A run that outlived an earlier command is waited for, not submitted again.
    """
    side.check_running()
    side.check_admitted()
    settings = side.consortium.settings(data)
    folder = RunFolder(path.absolute())
    if folder.started:
        folder.check_same(settings)
    flower = Flower(side.flower.home, side.folder / "logs" / "-".join(folder.path.parts[1:]))
    ended = outcome_logged("submission ended", "submission failed", "submission stopped")
    with events_written_to(side.events), ended:
        log_event(INFO, "run submitted", folder=str(folder.path))
        say(f"run submitted; folder: {folder.path}")
        try:
            flower.run(
                app=THIN_APP,
                config={**to_run_config(settings, folder.path), "keys": str(side.admitted)},
                simulated_clients=0,
                on_poll=_Watch(folder, observe, patience),
                superlink_restarts=True,
            )
        except BaseException:
            if run_id := flower.run_id():
                # If the run has ended or the SuperLink is down, the reason is raised below.
                with suppress(RametError):
                    flower.flwr("stop", run_id)
            raise
    return folder


class _Watch:
    """Reports the run's rounds, and raises an error if none ends for too long."""

    def __init__(self, folder: RunFolder, observe: Observer, patience: float) -> None:
        self._observe = observe
        self._patience = patience
        self._last_round = time.monotonic()
        self._report = reporter(folder, self._on_round)

    def __call__(self) -> None:
        self._report()
        if time.monotonic() - self._last_round > self._patience:
            raise RametError(
                f"no round ended for {self._patience:.0f} s. Check `ramet deploy status`, then "
                "rerun the same command to continue, or wait longer with --deadline."
            )

    def _on_round(self, record: Record) -> None:
        self._last_round = time.monotonic()
        self._observe(record)
