"""The server's side of a run, over whatever carries its messages.

Round t: clients train on what they have, reply, and the replies are merged as they come. The merge
travels with the next message, where each client judges it before it trains again; after the last
round a closing message carries the final merge, so every site ends with it. One message per client
and round, and each array crosses once up and once down per round. Before round 1 nothing has to be
sent: server and sites draw the same start from the run's seed.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from ramet.engine.check import fault
from ramet.engine.checkpoint import Snapshot, Snapshots
from ramet.engine.node import request
from ramet.errors import RametError
from ramet.methods import Method
from ramet.methods.merging import Reply
from ramet.metrics import WORK, Record
from ramet.payload import Arrays, Payload, digest
from ramet.randomness import Randomness

SERVER = "the server"
_OF_TRAINING = ("loss", "weight", "up", *WORK)
Answer: TypeAlias = tuple[str, Payload | str]
"""A client's name and its reply, or the reason why there is none."""
Observer: TypeAlias = Callable[[Record], None]
Overseer: TypeAlias = Callable[[Arrays], Mapping[str, float]]
"""Judges the server's arrays on all data at once."""


class Wire(Protocol):
    """Carries requests to clients and brings answers back in any order, as they come."""

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]: ...


@dataclass
class _Exchange:
    """What one message to each asked client brought back."""

    round: int
    rounds: int
    started: float = field(default_factory=time.monotonic)
    down: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, dict[str, float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    digests: dict[str, str] = field(default_factory=dict)

    def trained(self) -> dict[str, Any]:
        """The half of the round's record that is known now; the other half is judged next."""
        return {
            "round": self.round,
            "rounds": self.rounds,
            "trained": {
                client: {name: numbers[name] for name in _OF_TRAINING if name in numbers}
                for client, numbers in sorted(self.numbers.items())
            },
            "failed": dict(sorted(self.failed.items())),
            "seconds": time.monotonic() - self.started,
            "memory": int(max((n.get("memory", 0) for n in self.numbers.values()), default=0)),
        }

    def judged(self) -> dict[str, Any]:
        """The other half of the record of the round before."""
        dropped = {*_OF_TRAINING, "memory"}
        return {
            "judged": {
                client: {name: value for name, value in numbers.items() if name not in dropped}
                for client, numbers in sorted(self.numbers.items())
            },
            "down": dict(sorted(self.down.items())),
        }


@dataclass(frozen=True)
class Rounds:
    """A run: a method over clients, for a number of rounds, from a seed."""

    method: Method
    clients: Sequence[str]
    rounds: int
    seed: int
    start: Arrays
    snapshots: Snapshots
    overseer: Overseer | None = None

    def resume_point(self) -> int:
        """The last round that need not be done again; 0 if there is none."""
        last = self.snapshots.last_whole()
        return last.step if last else 0

    def run(self, wire: Wire, observe: Observer) -> str:
        """Do all rounds that are missing; the SHA-256 of everything that was learned."""
        state, pending, last = self._restored()
        first = pending["round"] + 1 if pending else 1
        for number in range(first, self.rounds + 1):
            clients = self.method.activation.ask(
                self.clients, Randomness(self.seed, SERVER, number)
            )
            done = _Exchange(number, self.rounds)
            replies = self._exchanged(wire, clients, state, done, last, train=True)
            state = self.method.merging.merge(state, replies)
            _someone(done)
            if pending:
                observe(Record(**pending, **done.judged()))
            told = {"overview": self._overview(state), "merging": dict(state.numbers)}
            pending = {**done.trained(), **told}
            last |= dict.fromkeys(done.numbers, number)
            self.snapshots.save(_snapshot(number, state, pending, last))
        closing = _Exchange(self.rounds + 1, self.rounds)
        for _ in self._exchanged(wire, self.clients, state, closing, last, train=False):
            pass
        _someone(closing)
        pending["failed"] = {**closing.failed, **pending["failed"]}
        observe(Record(**pending, **closing.judged()))
        everything = [["shared", digest(state.arrays)], *sorted(closing.digests.items())]
        return hashlib.sha256(json.dumps(everything).encode()).hexdigest()

    def _overview(self, state: Payload) -> dict[str, float]:
        return dict(self.overseer(self.method.merging.ask(state, SERVER))) if self.overseer else {}

    def _exchanged(
        self,
        wire: Wire,
        clients: Sequence[str],
        state: Payload,
        done: _Exchange,
        last: Mapping[str, int],
        train: bool,
    ) -> Iterator[Reply]:
        """The sound replies, as they come; what they say besides arrays goes into ``done``."""

        def requests() -> Iterator[tuple[str, Payload]]:
            for client in clients:
                arrays = {} if done.round == 1 else self.method.merging.ask(state, client)
                asked = request(done.round, train, arrays, last.get(client, 0))
                done.down[client] = asked.nbytes
                yield client, asked

        for client, reply in wire.exchange(requests()):
            reason = reply if isinstance(reply, str) else fault(reply, self.start, train)
            if isinstance(reply, str) or reason:
                done.failed[client] = str(reason)
                continue
            done.numbers[client] = dict(reply.numbers)
            if "private" in reply.notes:
                done.digests[client] = reply.notes["private"]
            yield client, reply

    def _restored(self) -> tuple[Payload, dict[str, Any], dict[str, int]]:
        """The merging's state, the half-told last round, and when each client last replied."""
        saved = self.snapshots.last_whole()
        if saved is None:
            return self.method.merging.start(self.start), {}, {}
        facts = saved.facts
        state = Payload(saved.arrays, facts["numbers"], facts["notes"])
        return state, dict(facts["pending"]), dict(facts["last"])


def _snapshot(
    number: int, state: Payload, pending: dict[str, Any], last: dict[str, int]
) -> Snapshot:
    told = {"numbers": dict(state.numbers), "notes": dict(state.notes)}
    return Snapshot(number, state.arrays, {**told, "pending": pending, "last": last})


def _someone(done: _Exchange) -> None:
    """A round in which nobody gave a sound reply is not a round."""
    if not done.numbers:
        client, reason = next(iter(done.failed.items()), ("-", "no client was asked"))
        raise RametError(
            f"no client gave a sound reply in exchange {done.round} ({client}: {reason}). If "
            "clients were down, go on with `ramet resume`; if training diverged, start anew with "
            "a smaller lr."
        )
