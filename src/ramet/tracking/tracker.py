"""The interface of a tracker, and what it receives of a run."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from ramet.metrics import Record, Summary


@dataclass(frozen=True)
class TrackedRun:
    """A run as its trackers see it."""

    name: str  # unique
    title: str  # method, setting and seed
    folder: Path
    settings: Mapping[str, str]  # without the folder of the data


class Tracker(ABC):
    """Opened with a run, receives its rounds in order, and is closed."""

    @abstractmethod
    def __init__(self, run: TrackedRun) -> None: ...

    @staticmethod
    def prepare() -> None:
        """Create what the trackers of all runs share, before several runs open them at once."""
        return

    @property
    @abstractmethod
    def last(self) -> int:
        """The last round that had been logged when the tracker was opened; 0 if there was none."""

    @abstractmethod
    def log_round(self, number: int, metrics: Mapping[str, float]) -> None:
        """Log the metrics of a round."""

    @abstractmethod
    def close(self, summary: Summary | None) -> None:
        """End the log; a run that was stopped has no summary."""


def metrics_of(record: Record) -> dict[str, float]:
    """The metrics of a round: means over the clients, costs, and the scores of each client."""
    means = {name: _mean(record.evaluated, name) for name in _names(record.evaluated)}
    for name in _names(record.trained):
        if name == "loss" or name.startswith("log/"):
            means[name] = _mean(record.trained, name)
    costs = {
        "bytes/up": record.bytes_up,
        "bytes/down": record.bytes_down,
        "seconds": record.seconds,
        "memory": record.memory,
        "clients/trained": len(record.trained),
        "clients/failed": len(record.failed),
    }
    of_clients = {
        f"client/{client}/{name}": value
        for client, scores in record.evaluated.items()
        for name, value in scores.items()
    }
    of_server = {
        **{f"overview/{name}": value for name, value in record.overview.items()},
        **{f"merging/{name}": value for name, value in record.merging.items()},
    }
    return {**means, **costs, **of_clients, **of_server}


def _names(clients: Mapping[str, Mapping[str, float]]) -> list[str]:
    return sorted({name for numbers in clients.values() for name in numbers})


def _mean(clients: Mapping[str, Mapping[str, float]], name: str) -> float:
    return fmean(numbers[name] for numbers in clients.values() if name in numbers)
