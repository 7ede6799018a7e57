"""Wires for `ramet try`: clients in this process, under conditions that real runs meet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from copy import deepcopy
from dataclasses import dataclass, field, replace

from ramet.engine.messages import omitted_arrays
from ramet.engine.server.wire import Answer, Wire
from ramet.experiment import RunFolder
from ramet.experiment.local_engine import LiveClients
from ramet.payload import Payload

_MISSING = {1: 0, 2: -1}
"""The round, and the index of the asked client that gives no reply in it."""


class StoppedError(Exception):
    """Stops a run in the middle, as the end of its process would."""


@dataclass(frozen=True)
class ColdWire:
    """Answers each message with a new client, so that no Python object survives a message.

    The samples are copied, because data sources cache what they have read.
    """

    folder: RunFolder

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        for client, message in requests:
            run = RunFolder(self.folder.path)
            own = LiveClients(run.experiment(), run.clients, lives=False, audited=True)(client)
            yield client, replace(own, samples=deepcopy(own.samples)).answer(message)


@dataclass(frozen=True)
class ReversedWire:
    """Delivers the replies of a round in reverse order."""

    wire: Wire

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        yield from reversed([*self.wire.exchange(requests)])


@dataclass(frozen=True)
class LossyWire:
    """Loses the first client in round 1 and the last one in round 2, if others are asked too."""

    wire: Wire

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        asked = [*requests]
        lost = _MISSING.get(_round(asked)) if len(asked) > 1 else None
        if lost is not None:
            client, _ = asked.pop(lost)
            yield client, "this client was left out on purpose"
        yield from self.wire.exchange(asked)


@dataclass(frozen=True)
class StoppingWire:
    """Stops the run after the first reply of a round."""

    wire: Wire
    round: int

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        asked = [*requests]
        for answer in self.wire.exchange(asked):
            yield answer
            if _round(asked) == self.round:
                raise StoppedError


@dataclass(frozen=True)
class WatchedWire:
    """Collects the names of the arrays that clients receive, and of those they need not send."""

    wire: Wire
    received: set[str] = field(default_factory=set)
    omitted: list[str] = field(default_factory=list)

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        return self.wire.exchange(self._watched(requests))

    def _watched(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[tuple[str, Payload]]:
        for client, message in requests:
            self.received.update(message.arrays)
            self.omitted.extend(omitted_arrays(message))
            yield client, message


def _round(asked: list[tuple[str, Payload]]) -> int:
    return int(asked[0][1].numbers["round"]) if asked else 0
