"""The in-process wire: clients answer one after the other, without a network."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from ramet.disk import syncing
from ramet.engine.server.wire import Answer, Wire
from ramet.payload import Payload


class Answering(Protocol):
    """A client, or a regional coordinator."""

    def answer(self, request: Payload) -> Payload: ...


class KeepingWire(Wire, Protocol):
    """A wire to clients whose states may be in memory."""

    @property
    def write(self) -> Callable[[], None]:
        """Writes the states that are in memory only."""
        ...

    @property
    def elsewhere(self) -> Callable[[], float]:
        """CPU-seconds that other processes have worked for the run so far."""
        ...


_LONG = 1.0
"""Seconds of a round whose files are worth waiting for the disk."""


def nothing() -> None:
    """Write nothing, where all states are on disk."""


def no_time() -> float:
    """The CPU-seconds of other processes, where there are none."""
    return 0.0


@dataclass
class LocalWire:
    """Asks each client in turn.

    In a run of short rounds, most of the time would be spent waiting for the disk. So files that
    clients write before they answer are synced only if the last exchange has begun a second ago or
    more.

    Args:
        client: returns the client with a name.
        write: writes the states of clients that are in memory only.
        elsewhere: CPU-seconds that other processes have worked so far.
    """

    client: Callable[[str], Answering]
    write: Callable[[], None] = field(default=nothing, kw_only=True)
    elsewhere: Callable[[], float] = field(default=no_time, kw_only=True)
    _begun: float | None = field(default=None, init=False)
    _long: bool = field(default=True, init=False)

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        self.begin()
        for client, request in requests:
            yield client, self.ask(client, request)

    def begin(self) -> None:
        """Begin an exchange."""
        now = time.monotonic()
        self._long = self._begun is None or now - self._begun >= _LONG
        self._begun = now

    def ask(self, client: str, request: Payload) -> Payload:
        with syncing(self._long):
            return self.client(client).answer(request)
