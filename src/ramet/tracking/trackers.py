"""Follow a run's rounds with any number of trackers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

from ramet.engine import Observer
from ramet.errors import RametError, unknown
from ramet.experiment import RunFolder
from ramet.metrics import Record
from ramet.tracking.tracker import TrackedRun, Tracker, numbers

TRACKERS: dict[str, str] = {
    "tensorboard": "TensorBoard",
    "mlflow": "MLflow",
    "wandb": "WeightsAndBiases",
}
"""A tracker's name, which is also its file's, its package's and its extra's; and its class."""


class TrackingWarning(UserWarning):
    """A tracker no longer follows a run."""


class Tracking:
    """The trackers of one run: those asked for now, and those it had before it was stopped.

    They are opened by ``start``, where one that is asked for and cannot be opened is an error, or
    at the first round. One that fails later is left alone from then on and the run goes on; a
    warning says so at once, and ``lost`` keeps the reason.
    """

    def __init__(self, folder: RunFolder, asked: Sequence[str] = ()) -> None:
        check_trackers(asked)
        self.lost: dict[str, str] = {}
        self._folder = folder
        self._asked = asked
        self._open: dict[str, Tracker] | None = None
        self._last: dict[str, int] = {}

    def start(self) -> None:
        """Open the trackers before the first round."""
        self._start(needed=self._asked)

    def _start(self, needed: Sequence[str]) -> None:
        """Open the trackers, and tell them what they have missed."""
        self._open = {}
        names = list(dict.fromkeys([*self._folder.trackers(), *self._asked]))
        if not names:
            return
        run = _described(self._folder)
        for name in names:
            try:
                tracker = _class_of(name)(run)
            except Exception as error:
                if name not in needed:
                    self._lose(name, error)
                    continue
                raise RametError(
                    f"{name} cannot track the run: {_said(error)} Mend that and go on with `ramet "
                    f"resume {self._folder.path} --track {name}`, or without --track."
                ) from error
            self._open[name], self._last[name] = tracker, tracker.last
        self._folder.keep_trackers(names)
        self._catch_up(self._folder.records())

    def watching(self, observe: Observer) -> Observer:
        """An observer that tells the trackers too."""

        def both(record: Record) -> None:
            observe(record)
            self.observe(record)

        return both

    def observe(self, record: Record) -> None:
        """Tell the trackers of a round, and of those before it that they have missed."""
        if self._open is None:
            self._start(needed=())
        behind = any(last < record.round - 1 for last in self._last.values())
        self._catch_up(self._folder.records() if behind else [record])

    def close(self) -> None:
        """Tell the trackers how the run ended."""
        if not self._open:
            return
        self._catch_up(self._folder.records())
        summary = self._folder.summary()
        for name, tracker in list(self._open.items()):
            try:
                tracker.close(summary)
            except Exception as error:  # noqa: BLE001 - whatever a tracker raises
                self._lose(name, error)
        self._open = None

    def _catch_up(self, records: Iterable[Record]) -> None:
        for record in records:
            told = numbers(record)
            for name, tracker in list((self._open or {}).items()):
                if self._last[name] >= record.round:
                    continue
                try:
                    tracker.note(record.round, told)
                except Exception as error:  # noqa: BLE001 - whatever a tracker raises
                    self._lose(name, error)
                else:
                    self._last[name] = record.round

    def _lose(self, name: str, error: Exception) -> None:
        if self._open:
            self._open.pop(name, None)
        self._last.pop(name, None)
        self.lost[name] = _said(error)
        warnings.warn(
            f"{name} no longer follows the run, which goes on: {self.lost[name]}",
            TrackingWarning,
            stacklevel=2,
        )


@contextmanager
def tracking(folder: RunFolder, asked: Sequence[str] = ()) -> Iterator[Tracking]:
    """Trackers are closed however the run ends."""
    followed = Tracking(folder, asked)
    try:
        yield followed
    finally:
        followed.close()


def check_trackers(names: Iterable[str]) -> None:
    """Complain of trackers that there are not, or not here, before a run starts."""
    for name in names:
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)
        if find_spec(name) is None:
            raise RametError(
                f"{name} is not installed. Install it: pip install 'ramet[{name}]', or leave out "
                f"--track {name}."
            )


def _class_of(name: str) -> type[Tracker]:
    found: type[Tracker] = getattr(import_module(f"ramet.tracking.{name}"), TRACKERS[name])
    return found


def _described(folder: RunFolder) -> TrackedRun:
    settings = folder.experiment().public_settings()
    known = settings.model_dump(mode="json", exclude={"data", "options"}, exclude_none=True)
    return TrackedRun(
        name=folder.run_name,
        title=f"{settings.label} {settings.setting} seed {settings.seed}",
        folder=folder.path,
        settings={
            **{key: str(value) for key, value in known.items()},
            **{f"set.{key}": value for key, value in settings.options.items()},
            "command": settings.command,
        },
    )


def _said(error: Exception) -> str:
    """An error in one line."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if text.endswith(".") else f"{text}."
