"""Rounds that end with the first replies; later ones are merged in later rounds."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from ramet.engine.server.collector import Direct
from ramet.engine.server.plan import Plan
from ramet.engine.server.questions import Questions
from ramet.engine.server.state import MERGING, RunState
from ramet.engine.server.tally import Counting, QuorumError, Tally
from ramet.payload import Array, Arrays, Payload, under
from ramet.randomness import Randomness
from ramet.rules.activation import Asked
from ramet.rules.fixed_point import prefixed
from ramet.rules.fold import Fold, KeptReplies, Sums
from ramet.rules.pace import FirstReplies

PACE = "pace"
"""The slice of the run's state."""


@dataclass(frozen=True)
class HeldReply:
    """A reply that has not been merged yet, with updates instead of arrays.

    ``asked`` is the round of the message that it answers, ``due`` the time at which it arrives.
    """

    update: Payload
    asked: int
    due: float


@dataclass(frozen=True)
class Waiting:
    """What is kept between rounds: the simulated time, and replies that arrive later."""

    clock: float
    held: Mapping[str, HeldReply]

    @staticmethod
    def of(state: RunState) -> Waiting:
        own = state[PACE]
        facts = json.loads(own.notes.get("held", "{}"))
        held = {
            client: HeldReply(_payload(under(f"{client}/", own.arrays), fact), *fact["times"])
            for client, fact in facts.items()
        }
        return Waiting(own.numbers.get("clock", 0.0), held)

    def payload(self) -> Payload:
        arrays: dict[str, Array] = {}
        facts: dict[str, Any] = {}
        for client, reply in self.held.items():
            update = reply.update
            arrays |= prefixed(f"{client}/arrays/", update.arrays)
            arrays |= prefixed(f"{client}/extras/", update.extras)
            facts[client] = {
                "numbers": dict(update.numbers),
                "notes": dict(update.notes),
                "times": (reply.asked, reply.due),
            }
        return Payload(arrays, {"clock": self.clock}, {"held": json.dumps(facts)})


def _payload(arrays: Arrays, facts: Mapping[str, Any]) -> Payload:
    parts = under("arrays/", arrays), facts["numbers"], facts["notes"], under("extras/", arrays)
    return Payload(*parts)


@dataclass(frozen=True)
class SimulatedPace:
    """Draws how long clients take, so that a run can be repeated."""

    clients: Direct
    pace: FirstReplies

    def collect(
        self, plan: Plan, state: RunState, asked: Asked, fold: Fold
    ) -> tuple[RunState, Tally]:
        if not plan.trains:
            return self.clients.collect(plan, state, asked, fold)
        waiting, new = Waiting.of(state), KeptReplies(Sums({}))
        free = {client: names for client, names in asked.items() if client not in waiting.held}
        try:
            _, tally = self.clients.collect(plan, state, free, new)
        except QuorumError as error:
            if not waiting.held:  # there is nothing to merge
                raise
            tally = error.tally
        waiting = self._merge_first(plan, state, dict(new.replies), waiting, fold)
        return state.having(PACE, waiting.payload()), tally

    def _merge_first(
        self,
        plan: Plan,
        state: RunState,
        new: dict[str, Payload],
        waiting: Waiting,
        fold: Fold,
    ) -> Waiting:
        """Add the replies that arrive first to the fold, and hold the others."""
        rules, held = self.clients.rules, dict(waiting.held)
        due = {client: reply.due for client, reply in held.items()}
        for client in new:
            draws = Randomness(rules.seed, client, plan.round)
            due[client] = waiting.clock + self.pace.duration(draws)
        first = sorted(due, key=lambda client: (due[client], client))[: self.pace.count]
        for client in first:
            late = held.pop(client, None)
            if late is None:
                fold.add(client, with_stale(new.pop(client), 0))
            else:
                reply = moved(late.update, rules.sent(state[MERGING], client))
                fold.add(client, with_stale(reply, plan.round - late.asked))
        questions = Questions(rules, state, plan)
        for client, reply in new.items():
            update = update_of(reply, questions.sent(client))
            held[client] = HeldReply(update, plan.round, due[client])
        return Waiting(max((due[client] for client in first), default=waiting.clock), held)


@dataclass(frozen=True)
class RealPace:
    """Takes replies as they arrive; the order of arrival is kept in the state."""

    clients: Direct
    pace: FirstReplies

    def collect(
        self, plan: Plan, state: RunState, asked: Asked, fold: Fold
    ) -> tuple[RunState, Tally]:
        if not plan.trains:
            return self.clients.collect(plan, state, asked, fold)
        direct, order = self.clients, list[str]()
        free = {c: names for c, names in asked.items() if c not in direct.unanswered}

        def ask(missing: Asked, counting: Counting) -> None:
            replies = direct.replies(plan, state, missing, counting)
            for client, reply, question in islice(replies, self.pace.count - len(order)):
                late = plan.round - question.plan.round
                if late:
                    sent = direct.rules.sent(state[MERGING], client)
                    reply = moved(update_of(reply, question.sent), sent)
                fold.add(client, with_stale(reply, late))
                order.append(client)

        tally = direct.quorum.collect(plan, free, ask, enough=self.pace.count)
        arrived = Payload(notes={"arrived": json.dumps(order)})
        return state.having(PACE, arrived), tally


def with_stale(reply: Payload, stale: int) -> Payload:
    return replace(reply, numbers={**reply.numbers, "stale": stale})


def update_of(reply: Payload, sent: Arrays) -> Payload:
    """A reply with the changes of its arrays relative to what was sent."""
    arrays = {n: a - sent[n] if n in sent else a for n, a in reply.arrays.items()}
    return replace(reply, arrays=arrays)


def moved(update: Payload, sent: Arrays) -> Payload:
    """The reply that a client would have sent with this update, had it begun with ``sent``."""
    arrays = {n: sent[n] + a if n in sent else a for n, a in update.arrays.items()}
    return replace(update, arrays=arrays)
