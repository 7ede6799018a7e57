"""Track a run with any number of trackers."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib import import_module
from importlib.util import find_spec

from ramet.engine.server.journal import Observer
from ramet.errors import RametError, RametWarning, unknown
from ramet.experiment import SPLIT_SEED, RunFolder
from ramet.metrics import Record
from ramet.tracking.tracker import TrackedRun, Tracker, metrics_of

TRACKERS: dict[str, str] = {
    "tensorboard": "TensorBoard",
    "mlflow": "MLflow",
    "wandb": "WeightsAndBiases",
}
"""The class of each tracker; module, package and extra have the tracker's name."""


class TrackingWarning(RametWarning):
    """A tracker has failed and no longer tracks a run."""


class Tracking:
    """The trackers of a run: those requested now, and those it had before it was stopped.

    ``start`` opens them, and fails if a requested one cannot be opened. Without ``start`` they are
    opened at the first round. If a tracker fails later, the run continues without it: a warning is
    issued at once, and ``failures`` holds the reason.
    """

    def __init__(self, folder: RunFolder, requested: Sequence[str] = ()) -> None:
        check_trackers(requested)
        self.failures: dict[str, str] = {}
        self._folder = folder
        self._requested = requested
        self._open: dict[str, Tracker] | None = None
        self._last: dict[str, int] = {}

    def start(self) -> None:
        """Open the trackers before the first round."""
        self._start(required=self._requested)

    def _start(self, required: Sequence[str]) -> None:
        """Open the trackers, and log the rounds that they have missed."""
        self._open = {}
        names = list(dict.fromkeys([*self._folder.trackers(), *self._requested]))
        if not names:
            return
        run = _tracked_run(self._folder)
        for name in names:
            try:
                tracker = _class_of(name)(run)
            except Exception as error:
                if name not in required:
                    self._drop(name, error)
                    continue
                raise RametError(
                    f"{name} cannot track the run: {_one_line(error)} Fix that and continue with "
                    f"`ramet resume {self._folder.path} --track {name}`, or without --track."
                ) from error
            self._open[name], self._last[name] = tracker, tracker.last
        self._folder.save_trackers(names)
        self._catch_up(self._folder.records())

    def wrap(self, observe: Observer) -> Observer:
        """An observer that calls ``observe``, then logs to the trackers."""

        def both(record: Record) -> None:
            observe(record)
            self.observe(record)

        return both

    def observe(self, record: Record) -> None:
        """Log a round, and any rounds before it that the trackers have missed."""
        if self._open is None:
            self._start(required=())
        behind = any(last < record.round - 1 for last in self._last.values())
        self._catch_up(self._folder.records() if behind else [record])

    def close(self) -> None:
        """Log any missed rounds and the summary, and close the trackers."""
        if not self._open:
            return
        self._catch_up(self._folder.records())
        summary = self._folder.summary()
        for name, tracker in list(self._open.items()):
            try:
                tracker.close(summary)
            except Exception as error:  # noqa: BLE001 - whatever a tracker raises
                self._drop(name, error)
        self._open = None

    def _catch_up(self, records: Iterable[Record]) -> None:
        for record in records:
            metrics = metrics_of(record)
            for name, tracker in list((self._open or {}).items()):
                if self._last[name] >= record.round:
                    continue
                try:
                    tracker.log_round(record.round, metrics)
                except Exception as error:  # noqa: BLE001 - whatever a tracker raises
                    self._drop(name, error)
                else:
                    self._last[name] = record.round

    def _drop(self, name: str, error: Exception) -> None:
        if self._open:
            self._open.pop(name, None)
        self._last.pop(name, None)
        self.failures[name] = _one_line(error)
        warnings.warn(
            f"{name} no longer tracks the run, which continues: {self.failures[name]}",
            TrackingWarning,
            stacklevel=2,
        )


@contextmanager
def tracking(folder: RunFolder, requested: Sequence[str] = ()) -> Iterator[Tracking]:
    """Yield the trackers of a run, and close them however it ends."""
    trackers = Tracking(folder, requested)
    try:
        yield trackers
    finally:
        trackers.close()


def check_trackers(names: Iterable[str]) -> None:
    """Reject unknown or uninstalled trackers before a run starts."""
    for name in names:
        if name not in TRACKERS:
            raise unknown("tracker", name, TRACKERS)
        if find_spec(name) is None:
            raise RametError(
                f"{name} is not installed. Install it: pip install 'ramet[{name}]', or leave out "
                f"--track {name}."
            )


def _class_of(name: str) -> type[Tracker]:
    tracker: type[Tracker] = getattr(import_module(f"ramet.tracking.{name}"), TRACKERS[name])
    return tracker


def prepare_trackers(names: Sequence[str]) -> None:
    """Prepare trackers for several runs at once."""
    for name in names:
        try:
            _class_of(name).prepare()
        except Exception as error:
            raise RametError(f"{name} cannot track the runs: {_one_line(error)}") from error


def _tracked_run(folder: RunFolder) -> TrackedRun:
    settings = folder.experiment().public_settings()
    known = settings.model_dump(mode="json", exclude={"data", "options"}, exclude_none=True)
    split = "" if settings.split_seed == SPLIT_SEED else f" split {settings.split_seed}"
    return TrackedRun(
        name=folder.run_name,
        title=f"{settings.label} {settings.shown_setting} seed {settings.seed}{split}",
        folder=folder.path,
        settings={
            **{key: str(value) for key, value in known.items()},
            **{f"set.{key}": value for key, value in settings.options.items()},
            "command": settings.command,
        },
    )


def _one_line(error: Exception) -> str:
    text = " ".join(str(error).split()) or type(error).__name__
    return text if text.endswith(".") else f"{text}."
