"""The server's side of a run, independent of how messages are carried.

In each round clients train and reply, and replies are merged as they arrive. The merge is sent with
the next message, and each client evaluates it before training again. After the last round a closing
message delivers the final merge, so every site ends with it. There is one message per client and
round, and each array crosses the wire once up and once down per round. Nothing is sent before
round 1: server and sites draw the same initial arrays from the run's seed.
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
from ramet.events import log_event
from ramet.methods import Method
from ramet.methods.activation import Choice, Spared, requested
from ramet.methods.base import switchable_arrays
from ramet.methods.merging import Reply
from ramet.metrics import WORK, Record
from ramet.payload import Arrays, Payload, digest, under
from ramet.randomness import Randomness

SERVER = "the server"
_TRAINING_NUMBERS = ("loss", "weight", "up", "tensors", "scalars", *WORK)
_ACTIVITY = "activity/"
Answer: TypeAlias = tuple[str, Payload | str]
"""A client's name, and its reply or the reason why there is none."""
Observer: TypeAlias = Callable[[Record], None]
ServerEvaluation: TypeAlias = Callable[[Arrays], Mapping[str, float]]
"""Evaluates the server's arrays on all data at once."""


class Refused(str):
    """Why a received reply was refused; a plain string says why none was received."""

    __slots__ = ()


class Wire(Protocol):
    """Carries requests to clients and yields their answers as they arrive, in any order."""

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]: ...


@dataclass
class _Exchange:
    """What was sent and received in one exchange, which is one message to each active client."""

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

    def training_half(self) -> dict[str, Any]:
        """The first half of the round's record; the next exchange evaluates and adds the rest."""
        return {
            "round": self.round,
            "rounds": self.rounds,
            "trained": {
                client: {name: numbers[name] for name in _TRAINING_NUMBERS if name in numbers}
                for client, numbers in sorted(self.numbers.items())
            },
            "failed": dict(sorted(self.failed.items())),
            "seconds": time.monotonic() - self.started,
            "retries": self.retries,
            "memory": int(max((n.get("memory", 0) for n in self.numbers.values()), default=0)),
        }

    def evaluation_half(self) -> dict[str, Any]:
        """The second half of the record of the previous round."""
        dropped = {*_TRAINING_NUMBERS, "memory"}
        return {
            "evaluated": {
                client: {name: value for name, value in numbers.items() if name not in dropped}
                for client, numbers in sorted(self.numbers.items())
            },
            "down": dict(sorted(self.down.items())),
            "tensors_down": self.sent[0],
            "scalars_down": self.sent[1],
        }

    def commit_facts(self) -> dict[str, Any]:
        """What is logged of a round before it is evaluated."""
        seconds = round(time.monotonic() - self.started, 3)
        return {"round": self.round, "seconds": seconds, "answered": sorted(self.numbers)}

    def add_fault(self, client: str, reason: str, received: bool) -> None:
        self.failed[client] = str(reason)
        event = "reply refused" if received else "no reply"
        log_event(WARNING, event, round=self.round, client=client, reason=reason)

    def add_request(self, client: str, message: Payload) -> None:
        self.down[client] = self.down.get(client, 0) + message.nbytes
        self.sent[0] += len(message.arrays)
        self.sent[1] += _scalars(message.arrays)

    def add_reply(self, client: str, reply: Payload) -> None:
        counts = {"tensors": len(reply.arrays), "scalars": _scalars(reply.arrays)}
        self.numbers[client] = {**reply.numbers, **counts}
        self.failed.pop(client, None)
        if "private" in reply.notes:
            self.digests[client] = reply.notes["private"]


@dataclass(frozen=True)
class Rounds:
    """A run: a method over clients, for a number of rounds, from a seed.

    An exchange needs valid replies from ``quorum`` clients, or from all active clients if those are
    fewer. Otherwise the missing clients are asked again after each of ``retry_delays`` (seconds).
    If the quorum is still missed, the run fails and the round is not committed.
    """

    method: Method
    clients: Sequence[str]
    rounds: int
    seed: int
    start: Arrays
    snapshots: Snapshots
    evaluate_server: ServerEvaluation | None = None
    quorum: int = 1
    retry_delays: Sequence[float] = ()
    norm_bound: float | None = None
    """Refuse replies that are further than this from what was sent; None for no bound."""

    def resume_point(self) -> int:
        """The last round with an undamaged snapshot; 0 if there is none."""
        last = self.snapshots.latest_valid()
        return last.step if last else 0

    def run(self, wire: Wire, observe: Observer) -> str:
        """Run the remaining rounds, and return the SHA-256 of everything that was learned."""
        state, activity, pending, last = self._restored()
        first = pending["round"] + 1 if pending else 1
        activation = self.method.activation
        switchable = switchable_arrays(self.method, self.start)
        for number in range(first, self.rounds + 1):
            choice = Choice(self.clients, switchable, Randomness(self.seed, SERVER, number))
            spared = activation.ask(activity, choice)
            exchange = _Exchange(number, self.rounds)
            log_event(INFO, "round begun", round=number, rounds=self.rounds, asked=len(spared))
            replies = self._replies(wire, spared, state, exchange, last, train=True)
            merged = self.method.merging.merge(state, replies)
            self._check_quorum(exchange, len(spared))
            state = merged
            activity = activation.settle(activity, choice, exchange.scores)
            if pending:
                observe(Record(**pending, **exchange.evaluation_half()))
            server_numbers = {"overview": self._overview(state), "merging": dict(state.numbers)}
            pending = {**exchange.training_half(), **server_numbers}
            last |= dict.fromkeys(exchange.numbers, number)
            self.snapshots.save(_snapshot(number, state, activity, pending, last))
            log_event(INFO, "round committed", **exchange.commit_facts())
        closing = _Exchange(self.rounds + 1, self.rounds)
        everyone = dict.fromkeys(self.clients, ())
        for _ in self._replies(wire, everyone, state, closing, last, train=False):
            pass
        self._check_quorum(closing, len(everyone))
        pending["failed"] = {**closing.failed, **pending["failed"]}
        observe(Record(**pending, **closing.evaluation_half()))
        everything = [["shared", digest(state.arrays)], *sorted(closing.digests.items())]
        return hashlib.sha256(json.dumps(everything).encode()).hexdigest()

    def _overview(self, state: Payload) -> dict[str, float]:
        return (
            dict(self.evaluate_server(self.method.merging.ask(state, SERVER)))
            if self.evaluate_server
            else {}
        )

    def _replies(
        self,
        wire: Wire,
        spared: Spared,
        state: Payload,
        exchange: _Exchange,
        last: Mapping[str, int],
        train: bool,
    ) -> Iterator[Reply]:
        """Yield valid replies as they arrive, and retry until the quorum is reached."""
        for attempt, delay in enumerate((0.0, *self.retry_delays)):
            exchange.retries = attempt
            missing = {k: names for k, names in spared.items() if k not in exchange.numbers}
            if attempt:
                log_event(
                    WARNING,
                    "asked again",
                    round=exchange.round,
                    attempt=attempt,
                    clients=[*missing],
                )
            time.sleep(delay)
            yield from self._valid_replies(wire, missing, state, exchange, last, train)
            if self._missing_replies(exchange, len(spared)) <= 0:
                return

    def _valid_replies(
        self,
        wire: Wire,
        spared: Spared,
        state: Payload,
        exchange: _Exchange,
        last: Mapping[str, int],
        train: bool,
    ) -> Iterator[Reply]:
        """Ask each client once; faults, scores and counts go into ``exchange``."""

        def requests() -> Iterator[tuple[str, Payload]]:
            for client in spared:
                arrays = {} if exchange.round == 1 else self.method.merging.ask(state, client)
                if self.method.activation.keep_own:
                    arrays = {name: arrays[name] for name in requested(arrays, spared[client])}
                message = request(
                    exchange.round, train, arrays, last.get(client, 0), spared[client]
                )
                exchange.add_request(client, message)
                yield client, message

        for client, reply in wire.exchange(requests()):
            if isinstance(reply, str):
                exchange.add_fault(client, reply, received=isinstance(reply, Refused))
                continue
            sent = self.method.merging.ask(state, client)
            reason = self._reply_fault(reply, sent, spared[client], train)
            if reason:
                exchange.add_fault(client, reason, received=True)
                continue
            exchange.add_reply(client, reply)
            if train:
                exchange.scores[client] = self._score(sent, reply)
            yield client, reply

    def _missing_replies(self, exchange: _Exchange, active: int) -> int:
        """How many valid replies the quorum still lacks; at least one is always needed."""
        return max(1, min(self.quorum, active)) - len(exchange.numbers)

    def _check_quorum(self, exchange: _Exchange, active: int) -> None:
        if self._missing_replies(exchange, active) <= 0:
            return
        valid = len(exchange.numbers)
        facts = {"round": exchange.round, "valid": valid, "asked": active, "quorum": self.quorum}
        log_event(ERROR, "quorum missed", **facts)
        reasons = "; ".join(f"{client}: {reason}" for client, reason in exchange.failed.items())
        raise RametError(
            f"{valid} of {active} clients sent a valid reply in exchange {exchange.round}, "
            f"below the quorum of {self.quorum} ({reasons or 'no client was asked'}). The round is "
            "not committed. If clients were down, continue with `ramet resume`. If training "
            "diverged, start a new run with a smaller lr."
        )

    def _reply_fault(
        self, reply: Payload, sent: Arrays, spared: Sequence[str], train: bool
    ) -> str | None:
        expected = {name: self.start[name] for name in requested(self.start, spared)}
        reason = fault(reply, expected, train)
        if reason or not train:
            return reason
        flaw = self.method.flaw(reply.arrays)
        return flaw or distance_fault(reply.arrays, sent, self.norm_bound)

    def _score(self, sent: Arrays, reply: Payload) -> Mapping[str, float]:
        names = switchable_arrays(self.method, reply.arrays)
        received = {name: reply.arrays[name] for name in names}
        return self.method.activation.score(sent, received, reply.numbers)

    def _restored(self) -> tuple[Payload, Payload, dict[str, Any], dict[str, int]]:
        """The saved state of the run.

        These are the states of merging and activation, the first half of the last round's record,
        and the last round in which each client replied.
        """
        saved = self.snapshots.latest_valid()
        if saved is None:
            return self.method.merging.start(self.start), Payload(), {}, {}
        facts = saved.facts
        merged = {name: a for name, a in saved.arrays.items() if not name.startswith(_ACTIVITY)}
        state = Payload(merged, facts["numbers"], facts["notes"])
        rest = facts.get("activity", {"numbers": {}, "notes": {}})
        activity = Payload(under(_ACTIVITY, saved.arrays), rest["numbers"], rest["notes"])
        return state, activity, dict(facts["pending"]), dict(facts["last"])


def _snapshot(
    number: int, state: Payload, activity: Payload, pending: dict[str, Any], last: dict[str, int]
) -> Snapshot:
    arrays = {_ACTIVITY + name: array for name, array in activity.arrays.items()}
    facts = {**_facts(state), "activity": _facts(activity), "pending": pending, "last": last}
    return Snapshot(number, {**state.arrays, **arrays}, facts)


def _facts(state: Payload) -> dict[str, Any]:
    return {"numbers": dict(state.numbers), "notes": dict(state.notes)}


def _scalars(arrays: Arrays) -> int:
    return sum(array.size for array in arrays.values())
