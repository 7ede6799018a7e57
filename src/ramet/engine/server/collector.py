"""How the replies of an exchange come in: from the clients themselves, until enough are valid."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from logging import ERROR, INFO, WARNING
from math import inf
from typing import Protocol, TypeAlias

from ramet.engine.server.plan import Plan
from ramet.engine.server.questions import Question, Questions, ReplyCheck, score_of
from ramet.engine.server.rules import ServerRules
from ramet.engine.server.state import RunState
from ramet.engine.server.tally import Counting, QuorumError, Tally
from ramet.engine.server.wire import Refused, Wire
from ramet.events import log_event
from ramet.payload import Payload
from ramet.rules.activation import Asked
from ramet.rules.fold import Fold

Asking: TypeAlias = Callable[[Asked, Counting], None]
"""Asks clients once, and counts what they send."""


class Collector(Protocol):
    """Protocol of collectors."""

    def collect(
        self, plan: Plan, state: RunState, asked: Asked, fold: Fold
    ) -> tuple[RunState, Tally]:
        """Ask the clients, and add their replies to the fold.

        Returns the state, in which a collector may have changed its own slice, and what was sent
        and received.
        """
        ...


@dataclass(frozen=True)
class Quorum:
    """How many valid replies an exchange needs, and when missing clients are asked again.

    It needs those of ``replies`` clients, or of all that are asked if those are fewer. Otherwise
    the missing ones are asked again after each of ``retry_delays`` (seconds). If the quorum is
    still missed, the exchange fails.
    """

    replies: int = 1
    retry_delays: Sequence[float] = ()

    def collect(self, plan: Plan, asked: Asked, ask: Asking, enough: float = inf) -> Tally:
        """Ask until there are enough replies; ``enough`` of them end the exchange anyway."""
        if plan.begins:
            facts = {"rounds": plan.last, "asked": len(asked)}
            log_event(INFO, "round begun", round=plan.round, **facts)
        counting = Counting(plan.round)
        needed = int(max(1, min(plan.quorum or self.replies, len(asked), enough)))
        for attempt, delay in enumerate((0.0, *self.retry_delays)):
            counting.retries = attempt
            missing = {c: names for c, names in asked.items() if c not in counting.answered}
            if attempt:
                again = {"attempt": attempt, "clients": [*missing]}
                log_event(WARNING, "asked again", round=plan.round, **again)
            time.sleep(delay)
            ask(missing, counting)
            if len(counting.answered) >= needed:
                return counting.tally()
        counts = {"valid": len(counting.answered), "asked": len(asked), "quorum": needed}
        log_event(ERROR, "quorum missed", round=plan.round, **counts)
        raise QuorumError(plan, counting.tally(), needed, len(asked))


@dataclass
class Direct:
    """Asks the clients themselves."""

    rules: ServerRules
    check: ReplyCheck
    wire: Wire
    quorum: Quorum
    unanswered: dict[str, Question] = field(default_factory=dict)
    """Clients that have not answered yet. After a restart they are asked again."""

    def collect(
        self, plan: Plan, state: RunState, asked: Asked, fold: Fold
    ) -> tuple[RunState, Tally]:
        if not plan.train:
            self._leave_late_replies()

        def ask(missing: Asked, counting: Counting) -> None:
            for client, reply, _ in self.replies(plan, state, missing, counting):
                fold.add(client, reply)

        return state, self.quorum.collect(plan, asked, ask)

    def replies(
        self, plan: Plan, state: RunState, asked: Asked, counting: Counting
    ) -> Iterator[tuple[str, Payload, Question]]:
        """Ask each client once, and yield valid replies with what they answer."""
        questions = Questions(self.rules, state, plan)

        def requests() -> Iterator[tuple[str, Payload]]:
            for client, omitted in asked.items():
                self.unanswered[client], message = questions.about(client, omitted)
                counting.request(client, message)
                yield client, message

        for client, reply in self.wire.exchange(requests()):
            question = self.unanswered.pop(client)
            if isinstance(reply, str):
                counting.fault(client, reply, received=isinstance(reply, Refused))
                continue
            arrived = self.check.arrived(reply, question)
            if isinstance(arrived, str):
                counting.fault(client, arrived, received=True)
                continue
            scores = score_of(self.rules, question, reply, arrived.arrays)
            counting.reply(client, reply, question.plan.round, scores)
            yield client, arrived, question

    def _leave_late_replies(self) -> None:
        """Receive what comes too late to be merged."""
        for client, _ in self.wire.exchange(()) if self.unanswered else ():
            self.unanswered.pop(client)
