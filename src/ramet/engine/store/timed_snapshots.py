"""The server's snapshots in a simulation: written every few seconds, with all clients' states.

Clients are written first. So the newest snapshot of the server is one that all clients can go back
to, whenever the process or the machine stops: clients keep their last few states.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

from ramet.engine.store.checkpoint import Snapshot, Snapshots

SECONDS = 3.0
"""Seconds of work that a crash may cost, besides the round that it interrupts."""
_SHARE = 20
"""Writing takes at most one in this many seconds."""


class ServerSnapshots(Protocol):
    """Protocol of what the server's snapshots are kept in."""

    @property
    def folder(self) -> Path: ...

    def latest_valid(self) -> Snapshot | None: ...

    def save(self, snapshot: Snapshot, pinned: Collection[int] = ()) -> None: ...

    def share(self, step: int, other: Snapshots, as_step: int, pinned: Collection[int]) -> None: ...

    def write(self) -> None:
        """Write what has been saved, if it is not on disk yet."""
        ...


@dataclass
class TimedSnapshots:
    """Snapshots in memory until they are written.

    Args:
        snapshots: where they are written.
        write_clients: writes the states of all clients, which are those of the last exchange.
        seconds: how long at least after the last time; 0 for every round.
        exchanges: the number of exchanges of a round. What is written is the state after a round.
    """

    snapshots: ServerSnapshots
    write_clients: Callable[[], None]
    seconds: float = SECONDS
    exchanges: int = 1
    _recent: dict[int, Snapshot] = field(default_factory=dict, init=False)
    _shared: dict[int, tuple[Snapshot, Snapshots]] = field(default_factory=dict, init=False)
    _pinned: Collection[int] = field(default=(), init=False)
    _written: bool = field(default=True, init=False)
    _due: float = field(default=0.0, init=False)

    def __post_init__(self) -> None:
        self._due = time.monotonic() + self.seconds

    @property
    def folder(self) -> Path:
        return self.snapshots.folder

    def latest_valid(self) -> Snapshot | None:
        return self.snapshots.latest_valid()

    def save(self, snapshot: Snapshot, pinned: Collection[int] = ()) -> None:  # noqa: ARG002
        """Keep a snapshot for a round, and write it if it is time to."""
        self._recent = {
            step: own
            for step, own in self._recent.items()
            if snapshot.step - self.exchanges <= step < snapshot.step
        }
        self._recent[snapshot.step] = snapshot
        self._written = False
        if snapshot.step % self.exchanges == 0 and time.monotonic() >= self._due:
            self.write()

    def share(self, step: int, other: Snapshots, as_step: int, pinned: Collection[int]) -> None:
        """Save a snapshot also in another folder, under another step."""
        if step not in self._recent:
            self.snapshots.share(step, other, as_step, pinned)
            return
        self._pinned = pinned
        kept = {known: own for known, own in self._shared.items() if known in pinned}
        self._shared = {**kept, as_step: (replace(self._recent[step], step=as_step), other)}

    def write(self) -> None:
        if self._written:
            return
        begun = time.monotonic()
        self.write_clients()
        for own, other in self._shared.values():
            other.save(own, pinned={*self._shared, *self._pinned})
        self.snapshots.save(self._recent[max(self._recent)])
        self._written, self._shared = True, {}
        now = time.monotonic()
        self._due = now + (max(self.seconds, _SHARE * (now - begun)) if self.seconds else 0.0)
