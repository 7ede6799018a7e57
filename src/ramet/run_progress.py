"""How far a run has come, as its events and those of its coordinator say.

Does not import PyTorch, because monitoring runs all day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from statistics import median
from typing import Any

from ramet.events import NAME, read_lines
from ramet.scale import PERCENT

STATES = ("submitted", "running", "finished", "stopped", "failed")
OUTCOMES = {"reply refused": "refused", "no reply": "missing"}
_RECENT_ROUNDS = 10


@dataclass
class RunProgress:
    """What events say of a run."""

    folder: Path
    run: str = ""
    method: str = ""
    state: str = STATES[0]
    reason: str = ""
    round: int = 0
    rounds: int = 0
    began: str = ""
    """When the last round began."""
    committed: int = 0
    clients: int = 0
    """Number of clients that the last round sent requests to."""
    replied: list[str] = field(default_factory=list)
    """Clients whose replies were merged in the last committed round."""
    missing: dict[str, str] = field(default_factory=dict)
    """Clients whose last reply is missing or refused, with the reason."""
    replies: Counter[tuple[str, str]] = field(default_factory=Counter)  # (client, outcome)
    seconds: list[float] = field(default_factory=list)  # of each committed round
    retries: int = 0
    quorums_missed: int = 0
    bytes_up: int = 0
    bytes_down: int = 0
    scores: dict[str, float] = field(default_factory=dict)
    unit: str = PERCENT
    """The unit of the scores."""
    last_event: str = ""

    @property
    def usual_seconds(self) -> float | None:
        """What a round takes: the median of the last ones, which one long round does not move."""
        return median(self.seconds[-_RECENT_ROUNDS:]) if self.seconds else None

    @property
    def seconds_left(self) -> float | None:
        """An estimate from the last rounds."""
        if self.state != "running" or self.usual_seconds is None:
            return None
        return self.usual_seconds * (self.rounds - self.committed)

    def seconds_in_round(self, now: datetime) -> float | None:
        """How long the round has lasted that has begun; None between rounds."""
        if self.state != "running" or not self.began or self.committed >= self.round:
            return None
        return (now - datetime.fromisoformat(self.began)).total_seconds()

    def apply(self, event: Mapping[str, Any]) -> None:
        self.last_event = event["time"]
        match event["event"]:
            case "run submitted":
                self.state, self.reason = "submitted", ""
            case "run begun":
                self.run, self.method = event["run"], event["method"]
                self.rounds, self.committed = event["rounds"], event["round"] - 1
                self.state, self.reason = "running", ""
            case "round begun":
                self.round, self.clients = event["round"], event["asked"]
                self.began = event["time"]
            case "reply refused" | "no reply" as kind:
                client = event["client"]
                self.replies[client, OUTCOMES[kind]] += 1
                self.missing[client] = f"{event['reason']} (round {event['round']})"
            case "asked again":
                self.retries += 1
            case "quorum missed":
                self.quorums_missed += 1
            case "round committed":
                self.committed, self.replied = event["round"], event["answered"]
                self.seconds.append(event["seconds"])
                for client in self.replied:
                    self.replies[client, "sound"] += 1
                    self.missing.pop(client, None)
            case "round evaluated":
                self.scores = {name: event[name] for name in ("test", "val")}
                self.unit = event.get("unit", PERCENT)
                self.bytes_up += event["bytes_up"]
                self.bytes_down += event["bytes_down"]
            case "run finished" | "submission ended":
                self.state = "finished"
            case "run stopped" | "submission stopped" if self.state not in ("finished", "failed"):
                self.state = "stopped"
            case "run failed" | "submission failed" if self.state != "finished":
                self.state, self.reason = "failed", self.reason or event["reason"]


def last_run(events: Path) -> RunProgress | None:
    """The run that was submitted last, from the party's events and those in the run's folder."""
    own_events = events_in(events)
    submitted = [n for n, event in enumerate(own_events) if event["event"] == "run submitted"]
    if not submitted:
        return None
    since = own_events[submitted[-1] :]
    return progress(Path(since[0]["folder"]), since)


def progress(folder: Path, elsewhere: Sequence[Mapping[str, Any]] = ()) -> RunProgress:
    """A run, from the events in its folder and others."""
    found = RunProgress(folder)
    every = [*elsewhere, *events_in(folder / NAME)]
    for event in sorted(every, key=lambda event: str(event["time"])):
        found.apply(event)
    return found


def events_in(path: Path) -> list[dict[str, Any]]:
    return _cached_events(path, path.stat().st_size) if path.exists() else []


@lru_cache(maxsize=8)
def _cached_events(path: Path, size: int) -> list[dict[str, Any]]:  # noqa: ARG001 (part of the cache key)
    return read_lines(path)
