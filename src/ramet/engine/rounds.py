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
from dataclasses import dataclass
from functools import cached_property
from logging import ERROR, INFO, WARNING
from typing import Any, Protocol, TypeAlias

from ramet.engine.check import distance_fault, due_numbers, fault
from ramet.engine.checkpoint import Snapshot, Snapshots
from ramet.engine.exchange import Exchange
from ramet.engine.node import request
from ramet.engine.server_rules import ServerRules
from ramet.events import log_event
from ramet.methods import AssembledMethod
from ramet.methods.activation import Choice, Spared
from ramet.methods.base import switchable_arrays
from ramet.methods.merging import Reply
from ramet.metrics import Record
from ramet.payload import Arrays, Payload, digest, under
from ramet.randomness import Randomness

SERVER = "the server"
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


@dataclass(frozen=True)
class Rounds:
    """A run: a method over clients, for a number of rounds, from a seed.

    An exchange needs valid replies from ``quorum`` clients, or from all active clients if those are
    fewer. Otherwise the missing clients are asked again after each of ``retry_delays`` (seconds).
    If the quorum is still missed, the run fails and the round is not committed.
    """

    method: AssembledMethod
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
            exchange = Exchange(number, self.rounds)
            log_event(INFO, "round begun", round=number, rounds=self.rounds, asked=len(spared))
            replies = self._replies(wire, spared, state, exchange, last)
            state = self._rules.merged(state, replies)
            activity = activation.settle(activity, choice, exchange.scores)
            if pending:
                observe(Record(**pending, **exchange.evaluation_half()))
            server_numbers = {"overview": self._overview(state), "merging": dict(state.numbers)}
            pending = {**exchange.training_half(), **server_numbers}
            last |= dict.fromkeys(exchange.numbers, number)
            self.snapshots.save(_snapshot(number, state, activity, pending, last))
            log_event(INFO, "round committed", **exchange.commit_facts())
        closing = Exchange(self.rounds + 1, self.rounds)
        for _ in self._replies(wire, dict.fromkeys(self.clients, ()), state, closing, last):
            pass
        pending["failed"] = {**closing.failed, **pending["failed"]}
        observe(Record(**pending, **closing.evaluation_half()))
        everything = [["shared", digest(state.arrays)], *sorted(closing.digests.items())]
        return hashlib.sha256(json.dumps(everything).encode()).hexdigest()

    @cached_property
    def _rules(self) -> ServerRules:
        return ServerRules(self.method, self.start)

    def _overview(self, state: Payload) -> dict[str, float]:
        if self.evaluate_server is None:
            return {}
        return dict(self.evaluate_server(self._rules.new_client(state)))

    def _replies(
        self,
        wire: Wire,
        spared: Spared,
        state: Payload,
        exchange: Exchange,
        last: Mapping[str, int],
    ) -> Iterator[Reply]:
        """Yield valid replies as they arrive, and retry until the quorum is reached.

        If it is not reached, the error is raised here, so no rule merges too few replies.
        """
        for attempt, delay in enumerate((0.0, *self.retry_delays)):
            exchange.retries = attempt
            missing = {k: names for k, names in spared.items() if k not in exchange.numbers}
            if attempt:
                facts = {"round": exchange.round, "attempt": attempt, "clients": [*missing]}
                log_event(WARNING, "asked again", **facts)
            time.sleep(delay)
            yield from self._valid_replies(wire, missing, state, exchange, last)
            if len(exchange.numbers) >= max(1, min(self.quorum, len(spared))):
                return
        facts = {"round": exchange.round, "valid": len(exchange.numbers), "asked": len(spared)}
        log_event(ERROR, "quorum missed", **facts, quorum=self.quorum)
        raise exchange.below(self.quorum, len(spared))

    def _valid_replies(
        self,
        wire: Wire,
        spared: Spared,
        state: Payload,
        exchange: Exchange,
        last: Mapping[str, int],
    ) -> Iterator[Reply]:
        """Ask each client once; faults, scores and counts go into ``exchange``."""

        def requests() -> Iterator[tuple[str, Payload]]:
            for client, names in spared.items():
                sent = {} if exchange.round == 1 else self._rules.sent(state, client, names)
                known_round = last.get(client, 0)
                message = request(exchange.round, exchange.train, sent, known_round, names)
                exchange.add_request(client, message)
                yield client, message

        for client, reply in wire.exchange(requests()):
            if isinstance(reply, str):
                exchange.add_fault(client, reply, received=isinstance(reply, Refused))
                continue
            sent = self._rules.sent(state, client, spared[client])
            if exchange.round == 1:  # nothing was sent: clients began with the start arrays
                sent = {name: self.start[name] for name in sent}
            reason = self._fault(reply, sent, spared[client], exchange)
            if reason:
                exchange.add_fault(client, reason, received=True)
                continue
            exchange.add_reply(client, reply)
            if exchange.train:
                exchange.scores[client] = self._rules.score(sent, reply.arrays, reply.numbers)
            yield client, reply

    def _fault(
        self, reply: Payload, sent: Arrays, spared: Sequence[str], exchange: Exchange
    ) -> str | None:
        due = due_numbers(exchange.round, exchange.train)
        reason = fault(reply, self._rules.expected(spared), exchange.train, due)
        if reason or not exchange.train:
            return reason
        flaw = self.method.flaw(reply.arrays)
        return flaw or distance_fault(reply.arrays, sent, self.norm_bound)

    def _restored(self) -> tuple[Payload, Payload, dict[str, Any], dict[str, int]]:
        """The saved state of the run.

        These are the states of merging and activation, the first half of the last round's record,
        and the last round in which each client replied.
        """
        saved = self.snapshots.latest_valid()
        if saved is None:
            return self._rules.first_state(), Payload(), {}, {}
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
