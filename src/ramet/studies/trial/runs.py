"""The runs that `ramet try` makes of a method, and their comparison."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

from ramet.engine.processes.local import LocalWire
from ramet.engine.server.wire import Wire
from ramet.errors import RametError
from ramet.experiment import Experiment, RunFolder, RunSettings, checked_settings
from ramet.experiment.code import user_files
from ramet.experiment.executing import execute
from ramet.experiment.local_engine import LiveClients
from ramet.metrics import Record
from ramet.studies.trial.findings import difference
from ramet.studies.trial.wires import WatchedWire

REFERENCE = "reference"
_CHANCE = (
    "Two ordinary runs differ as well: the method uses the time, or random numbers of its own. "
    "Draw random numbers with `session.randomness`."
)


class SkippedError(Exception):
    """Why a check cannot be made."""


class BrokenPromiseError(RametError):
    """What a method does although it should not."""


@dataclass(frozen=True)
class Trial:
    """The runs of a method, in a folder."""

    given: Mapping[str, Any]
    """Arguments of `checked_settings`."""
    folder: Path

    @cached_property
    def settings(self) -> RunSettings:
        return checked_settings(**self.given)

    @cached_property
    def user_files(self) -> Collection[Path]:
        return user_files(RunSettings(**self.given)).values()

    @property
    def has_reference(self) -> bool:
        return self._reference.started and self._reference.summary() is not None

    @property
    def reference(self) -> RunFolder:
        """The finished ordinary run, with which others are compared."""
        if not self.has_reference:
            raise SkippedError("there is no reference run to compare with")
        return self._reference

    @cached_property
    def repeated(self) -> tuple[RunFolder, WatchedWire]:
        """The ordinary run a second time, and what its clients were sent."""
        folder = self.created("repeated")
        clients = live_clients(folder)
        wire = WatchedWire(clients)
        return executed(folder, wire, clients.write), wire

    def new_path(self, name: str) -> Path:
        return Path(mkdtemp(prefix=f"{name}-", dir=self.folder))

    def created(self, name: str, settings: RunSettings | None = None) -> RunFolder:
        return RunFolder.create(self.new_path(name), Experiment(settings or self.settings))

    def compare(self, run: RunFolder, expected: RunFolder, meaning: str) -> None:
        """Raise an error that says where two runs differ, and what that means."""
        if sha256(run) != sha256(expected):
            cause = meaning if self._repeats else _CHANCE
            raise BrokenPromiseError(f"{difference(run, expected)} {cause}")

    @property
    def _reference(self) -> RunFolder:
        return RunFolder(self.folder / REFERENCE)

    @property
    def _repeats(self) -> bool:
        """Whether two ordinary runs are equal, as far as is known."""
        return not self.has_reference or sha256(self.repeated[0]) == sha256(self.reference)


def live_clients(folder: RunFolder) -> LocalWire:
    """Clients in this process's memory; what leaves them is logged, to find differences."""
    experiment = folder.experiment()
    return LiveClients(experiment, folder.clients, experiment.lives, audited=True).wire()


def executed(folder: RunFolder, wire: Wire, write: Callable[[], None] | None = None) -> RunFolder:
    """Execute a run; after every round, all states are written."""
    execute(folder, wire, _ignore, write, seconds=0)
    return folder


def sha256(run: RunFolder) -> str:
    summary = run.summary()
    if summary is None:
        raise RametError("the run ended without a result.")
    return summary.sha256


def _ignore(record: Record) -> None:
    """Observe nothing."""
