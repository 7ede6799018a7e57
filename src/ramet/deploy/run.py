"""A run with all sites, submitted at the coordinator and waited for."""

from __future__ import annotations

import time
from contextlib import suppress
from logging import INFO
from pathlib import Path

from ramet.deploy.coordinator import Coordinator
from ramet.deploy.side import Tell
from ramet.engine import Observer
from ramet.errors import RametError
from ramet.events import ending, tell, written_to
from ramet.experiment import RunFolder
from ramet.flower import THIN_APP
from ramet.flower.launch import reporter
from ramet.flower.programs import Flower
from ramet.flower.records import to_run_config
from ramet.metrics import Record


def run_together(
    side: Coordinator, path: Path, data: Path, patience: float, observe: Observer, say: Tell
) -> RunFolder:
    """Run the consortium's method, or go on with the run in `path`, and wait for its end.

    The server's side of the run makes the folder, as it hears from the sites what they hold. Every
    reply must be signed by the key that the site was admitted with. Gives up when no round ends
    for `patience` seconds. A run that is still going on, since only its command was ended, is
    watched again.
    """
    side.check_running()
    side.check_admitted()
    settings = side.consortium.settings(data)
    folder = RunFolder(path.absolute())
    if folder.started:
        folder.check_same(settings)
    flower = Flower(side.flower.home, side.folder / "logs" / "-".join(folder.path.parts[1:]))
    ended = ending("submission ended", "submission failed", "submission stopped")
    with written_to(side.events), ended:
        tell(INFO, "run submitted", folder=str(folder.path))
        say(f"run submitted; its folder: {folder.path}")
        try:
            flower.run(
                app=THIN_APP,
                config={**to_run_config(settings, folder.path), "keys": str(side.admitted)},
                simulated_clients=0,
                meanwhile=_Watch(folder, observe, patience),
                link_returns=True,
            )
        except BaseException:
            if number := flower.run_number():
                with suppress(
                    RametError
                ):  # it is over already, or the SuperLink is gone; why is raised next
                    flower.ask("stop", number)
            raise
    return folder


class _Watch:
    """Observes the run's rounds, and ends the wait when none comes for too long."""

    def __init__(self, folder: RunFolder, observe: Observer, patience: float) -> None:
        self._observe = observe
        self._patience = patience
        self._last_news = time.monotonic()
        self._report = reporter(folder, self._note)

    def __call__(self) -> None:
        self._report()
        if time.monotonic() - self._last_news > self._patience:
            raise RametError(
                f"no round ended for {self._patience:.0f} s. See `ramet deploy status`, then go on "
                "with the same command, or wait longer with --deadline."
            )

    def _note(self, record: Record) -> None:
        self._last_news = time.monotonic()
        self._observe(record)
