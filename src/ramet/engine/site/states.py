"""Where clients' states are between messages: on disk, or in memory until all are written at once.

A deployed site writes its state before every reply, because nobody can send its server back. In a
simulation all states are this machine's: clients stay in memory, and are written together between
two exchanges. After a crash, the run goes back to there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import numpy as np
import torch

from ramet.engine.site.kept_models import save_evaluated
from ramet.engine.store.checkpoint import Snapshot, Snapshots
from ramet.engine.store.client_state import ClientState, restore, snapshot

_LIMIT = 512 * 2**20
"""Bytes of all states in the memory of a process."""


@dataclass(frozen=True)
class Place:
    """Where a client's state belongs, and how a new one is created."""

    snapshots: Snapshots
    device: torch.device
    new: Callable[[bool], ClientState]
    """Creates a state; True for that of a client which has never trained."""

    def load(self, step: int | None) -> ClientState:
        """The state on disk after a step; a new one if there is no step."""
        state = self.new(step is None)
        if step is not None:
            restore(self.snapshots.load(step), state, self.device)
        return state

    def save(self, step: int, state: ClientState, pinned: Collection[int] = ()) -> None:
        """Write a state. Those of ``pinned`` steps are not too old."""
        save_evaluated(self.snapshots.folder, state.evaluated, state.candidates)
        state.evaluated = {}
        self.snapshots.save(snapshot(step, state), pinned)


class States(Protocol):
    """Protocol of the places where states are between messages."""

    def opened(self, place: Place, before: int) -> tuple[int, ClientState]:
        """The last state from before a step, and its own step: 0 for a new one."""
        ...

    def keep(self, place: Place, step: int, state: ClientState) -> None:
        """Keep the state after a step."""
        ...

    def write(self) -> None:
        """Write all states that are not on disk."""
        ...


class SavedStates:
    """States that are on disk before a reply leaves, so that any process can go on with them."""

    def opened(self, place: Place, before: int) -> tuple[int, ClientState]:
        step = place.snapshots.latest_step(before)
        return step or 0, place.load(step)

    def keep(self, place: Place, step: int, state: ClientState) -> None:
        place.save(step, state)

    def write(self) -> None:
        """Do nothing: what is kept is on disk."""


@dataclass
class _Live:
    place: Place
    step: int
    state: ClientState
    nbytes: int
    copy: Snapshot | None
    written: bool = False

    def opened(self) -> ClientState:
        """The state itself, or a new one with the same content."""
        if self.copy is None:
            return self.state
        state = self.place.new(False)
        restore(self.copy, state, self.place.device)
        state.candidates, state.evaluated = self.state.candidates, self.state.evaluated
        return state


@dataclass
class LiveStates:
    """States in this process's memory, as many as fit; the others are on disk.

    A state that does not fit is not kept, instead of replacing others: where all clients are asked
    in turn, each would be replaced before it is asked again.

    Args:
        renewed: whether each message gets a new network and a new optimiser. Code of users may keep
            more in these objects than a file has, which must not survive.
        limit: bytes of all states.
    """

    renewed: bool = False
    limit: int = _LIMIT
    _live: dict[Path, _Live] = field(default_factory=dict)
    _on_disk: dict[Path, Snapshots] = field(default_factory=dict)
    _nbytes: int = 0

    def opened(self, place: Place, before: int) -> tuple[int, ClientState]:
        """The state in memory, unless an earlier one is asked for, or another process was here.

        It is taken out, so that an error leaves none that is half trained.
        """
        own, on_disk = self._taken(place.snapshots), place.snapshots.latest_step(before)
        if own is not None and (on_disk or 0) <= own.step < before:
            return own.step, own.opened()
        return on_disk or 0, place.load(on_disk)

    def keep(self, place: Place, step: int, state: ClientState) -> None:
        state.separate_memory()
        snapshots, copy = place.snapshots, _copied(step, state) if self.renewed else None
        own = _Live(place, step, state, state.nbytes, copy)
        if self._nbytes + own.nbytes > self.limit:
            self._on_disk[snapshots.folder] = snapshots
            place.save(step, state, pinned=snapshots.steps())  # the run may go back to any of them
            return
        self._live[snapshots.folder] = own
        self._nbytes += own.nbytes

    def write(self) -> None:
        for own in self._live.values():
            if not own.written:
                own.place.save(own.step, own.state)
                own.written = True
        for snapshots in self._on_disk.values():
            snapshots.delete_old()
        self._on_disk.clear()

    def _taken(self, snapshots: Snapshots) -> _Live | None:
        own = self._live.pop(snapshots.folder, None)
        self._nbytes -= own.nbytes if own else 0
        return own


def _copied(step: int, state: ClientState) -> Snapshot:
    """What a file would have of the state."""
    whole = snapshot(step, state)
    arrays = {name: np.array(array, order="C") for name, array in sorted(whole.arrays.items())}
    return Snapshot(step, arrays, json.loads(json.dumps(whole.facts)))
