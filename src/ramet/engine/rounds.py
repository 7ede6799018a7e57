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
from logging import ERROR, INFO, WARNING
from typing import Any, Protocol, TypeAlias

from ramet.engine.check import distance_fault, fault
from ramet.engine.checkpoint import Snapshot, Snapshots
from ramet.engine.node import request
from ramet.errors import RametError
from ramet.events import tell
from ramet.methods import Method
from ramet.methods.activation import Choice, Spared, asked_of
from ramet.methods.base import switchable_arrays
from ramet.methods.merging import Reply
from ramet.metrics import WORK, Record
from ramet.payload import Arrays, Payload, digest, under
from ramet.randomness import Randomness

SERVER = "the server"
_OF_TRAINING = ("loss", "weight", "up", "tensors", "scalars", *WORK)
_ACTIVITY = "activity/"
Answer: TypeAlias = tuple[str, Payload | str]
"""A client's name and its reply, or the reason why there is none."""
Observer: TypeAlias = Callable[[Record], None]
ServerEvaluation: TypeAlias = Callable[[Arrays], Mapping[str, float]]
"""Judges the server's arrays on all data at once."""


class Refused(str):
    """Why a reply that came does not count; any other text says why none came."""

    __slots__ = ()


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
    scores: dict[str, Mapping[str, float]] = field(default_factory=dict)
    sent: list[int] = field(default_factory=lambda: [0, 0])  # tensors and scalars, to all
    digests: dict[str, str] = field(default_factory=dict)
    retries: int = 0

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
            "retries": self.retries,
            "memory": int(max((n.get("memory", 0) for n in self.numbers.values()), default=0)),
        }

    def evaluated(self) -> dict[str, Any]:
        """The other half of the record of the round before."""
        dropped = {*_OF_TRAINING, "memory"}
        return {
            "evaluated": {
                client: {name: value for name, value in numbers.items() if name not in dropped}
                for client, numbers in sorted(self.numbers.items())
            },
            "down": dict(sorted(self.down.items())),
            "tensors_down": self.sent[0],
            "scalars_down": self.sent[1],
        }

    def committed(self) -> dict[str, Any]:
        """What those who watch are told of a round before it is judged."""
        seconds = round(time.monotonic() - self.started, 3)
        return {"round": self.round, "seconds": seconds, "answered": sorted(self.numbers)}

    def note_fault(self, client: str, reason: str, came: bool) -> None:
        self.failed[client] = str(reason)
        event = "reply refused" if came else "no reply"
        tell(WARNING, event, round=self.round, client=client, reason=reason)

    def note_request(self, client: str, asked: Payload) -> None:
        self.down[client] = self.down.get(client, 0) + asked.nbytes
        self.sent[0] += len(asked.arrays)
        self.sent[1] += _scalars(asked.arrays)

    def note_reply(self, client: str, reply: Payload) -> None:
        counts = {"tensors": len(reply.arrays), "scalars": _scalars(reply.arrays)}
        self.numbers[client] = {**reply.numbers, **counts}
        self.failed.pop(client, None)
        if "private" in reply.notes:
            self.digests[client] = reply.notes["private"]


@dataclass(frozen=True)
class Rounds:
    """A run: a method over clients, for a number of rounds, from a seed.

    An exchange counts when ``quorum`` clients, or all that were asked if fewer, gave a sound
    reply. Below it those who did not are asked again after each of ``pauses`` (in seconds); then
    the run ends with an error, and the round is not committed.
    """

    method: Method
    clients: Sequence[str]
    rounds: int
    seed: int
    start: Arrays
    snapshots: Snapshots
    evaluate_server: ServerEvaluation | None = None
    quorum: int = 1
    pauses: Sequence[float] = ()
    norm_bound: float | None = None
    """A reply that is further than this from what was sent is refused; None allows any."""

    def resume_point(self) -> int:
        """The last round that need not be done again; 0 if there is none."""
        last = self.snapshots.last_whole()
        return last.step if last else 0

    def run(self, wire: Wire, observe: Observer) -> str:
        """Do all rounds that are missing; the SHA-256 of everything that was learned."""
        state, activity, pending, last = self._restored()
        first = pending["round"] + 1 if pending else 1
        activation = self.method.activation
        switchable = switchable_arrays(self.method, self.start)
        for number in range(first, self.rounds + 1):
            choice = Choice(self.clients, switchable, Randomness(self.seed, SERVER, number))
            spared = activation.ask(activity, choice)
            done = _Exchange(number, self.rounds)
            tell(INFO, "round begun", round=number, rounds=self.rounds, asked=len(spared))
            replies = self._exchanged(wire, spared, state, done, last, train=True)
            merged = self.method.merging.merge(state, replies)
            self._check_quorum(done, len(spared))
            state = merged
            activity = activation.settle(activity, choice, done.scores)
            if pending:
                observe(Record(**pending, **done.evaluated()))
            told = {"overview": self._overview(state), "merging": dict(state.numbers)}
            pending = {**done.trained(), **told}
            last |= dict.fromkeys(done.numbers, number)
            self.snapshots.save(_snapshot(number, state, activity, pending, last))
            tell(INFO, "round committed", **done.committed())
        closing, everyone = _Exchange(self.rounds + 1, self.rounds), dict.fromkeys(self.clients, ())
        for _ in self._exchanged(wire, everyone, state, closing, last, train=False):
            pass
        self._check_quorum(closing, len(everyone))
        pending["failed"] = {**closing.failed, **pending["failed"]}
        observe(Record(**pending, **closing.evaluated()))
        everything = [["shared", digest(state.arrays)], *sorted(closing.digests.items())]
        return hashlib.sha256(json.dumps(everything).encode()).hexdigest()

    def _overview(self, state: Payload) -> dict[str, float]:
        return (
            dict(self.evaluate_server(self.method.merging.ask(state, SERVER)))
            if self.evaluate_server
            else {}
        )

    def _exchanged(
        self,
        wire: Wire,
        spared: Spared,
        state: Payload,
        done: _Exchange,
        last: Mapping[str, int],
        train: bool,
    ) -> Iterator[Reply]:
        """The sound replies, as they come, asking again while they are too few."""
        for attempt, pause in enumerate((0.0, *self.pauses)):
            done.retries = attempt
            missing = {k: left_out for k, left_out in spared.items() if k not in done.numbers}
            if attempt:
                tell(WARNING, "asked again", round=done.round, attempt=attempt, clients=[*missing])
            time.sleep(pause)
            yield from self._sound_replies(wire, missing, state, done, last, train)
            if self._lacking(done, len(spared)) <= 0:
                return

    def _sound_replies(
        self,
        wire: Wire,
        spared: Spared,
        state: Payload,
        done: _Exchange,
        last: Mapping[str, int],
        train: bool,
    ) -> Iterator[Reply]:
        """What they say besides arrays goes into ``done``, and why a reply is refused."""

        def requests() -> Iterator[tuple[str, Payload]]:
            for client in spared:
                arrays = {} if done.round == 1 else self.method.merging.ask(state, client)
                if self.method.activation.keep_own:
                    arrays = {name: arrays[name] for name in asked_of(arrays, spared[client])}
                asked = request(done.round, train, arrays, last.get(client, 0), spared[client])
                done.note_request(client, asked)
                yield client, asked

        for client, reply in wire.exchange(requests()):
            if isinstance(reply, str):
                done.note_fault(client, reply, came=isinstance(reply, Refused))
                continue
            sent = self.method.merging.ask(state, client)
            reason = self._fault(reply, sent, spared[client], train)
            if reason:
                done.note_fault(client, reason, came=True)
                continue
            done.note_reply(client, reply)
            if train:
                done.scores[client] = self._score(sent, reply)
            yield client, reply

    def _lacking(self, done: _Exchange, asked: int) -> int:
        """How many sound replies are missing to the quorum; nobody's is none at all."""
        return max(1, min(self.quorum, asked)) - len(done.numbers)

    def _check_quorum(self, done: _Exchange, asked: int) -> None:
        if self._lacking(done, asked) <= 0:
            return
        sound = len(done.numbers)
        facts = {"round": done.round, "sound": sound, "asked": asked, "quorum": self.quorum}
        tell(ERROR, "quorum missed", **facts)
        reasons = "; ".join(f"{client}: {reason}" for client, reason in done.failed.items())
        raise RametError(
            f"{sound} of {asked} clients gave a sound reply in exchange {done.round}, "
            f"below the quorum of {self.quorum} ({reasons or 'no client was asked'}). The round is "
            "not committed. If clients were down, go on with `ramet resume`; if training diverged, "
            "start anew with a smaller lr."
        )

    def _fault(
        self, reply: Payload, sent: Arrays, spared: Sequence[str], train: bool
    ) -> str | None:
        expected = {name: self.start[name] for name in asked_of(self.start, spared)}
        found = fault(reply, expected, train)
        if found or not train:
            return found
        flaw = self.method.flaw(reply.arrays)
        return flaw or distance_fault(reply.arrays, sent, self.norm_bound)

    def _score(self, sent: Arrays, reply: Payload) -> Mapping[str, float]:
        came = {name: reply.arrays[name] for name in switchable_arrays(self.method, reply.arrays)}
        return self.method.activation.score(sent, came, reply.numbers)

    def _restored(self) -> tuple[Payload, Payload, dict[str, Any], dict[str, int]]:
        """The states of merging and activation, the half-told last round, and when each client
        last replied."""
        saved = self.snapshots.last_whole()
        if saved is None:
            return self.method.merging.start(self.start), Payload(), {}, {}
        facts = saved.facts
        own = {name: a for name, a in saved.arrays.items() if not name.startswith(_ACTIVITY)}
        state = Payload(own, facts["numbers"], facts["notes"])
        known = facts.get("activity", {"numbers": {}, "notes": {}})
        activity = Payload(under(_ACTIVITY, saved.arrays), known["numbers"], known["notes"])
        return state, activity, dict(facts["pending"]), dict(facts["last"])


def _snapshot(
    number: int, state: Payload, activity: Payload, pending: dict[str, Any], last: dict[str, int]
) -> Snapshot:
    arrays = {_ACTIVITY + name: array for name, array in activity.arrays.items()}
    facts = {**_told(state), "activity": _told(activity), "pending": pending, "last": last}
    return Snapshot(number, {**state.arrays, **arrays}, facts)


def _told(state: Payload) -> dict[str, Any]:
    return {"numbers": dict(state.numbers), "notes": dict(state.notes)}


def _scalars(arrays: Arrays) -> int:
    return sum(array.size for array in arrays.values())
