"""A collector of masked replies: it has the steps of secure sums done before and after them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from logging import INFO, WARNING

from ramet.engine.check import range_fault
from ramet.engine.secure_messages import context_digest
from ramet.engine.server.asking import Ask, asker
from ramet.engine.server.collector import Direct
from ramet.engine.server.journal import JOURNAL, Entries
from ramet.engine.server.plan import Plan
from ramet.engine.server.questions import Questions
from ramet.engine.server.secure_steps import PendingSum, SecureState, sum_of, with_keys
from ramet.engine.server.state import RunState
from ramet.engine.server.tally import Counting, QuorumError, Tally
from ramet.events import log_event
from ramet.payload import Arrays
from ramet.rules.activation import Asked
from ramet.rules.fixed_point import means_of
from ramet.rules.fold import Fold

SECURE = "secure"
"""The slice of the run's state."""
_NOT_COMMITTED = "the round is not committed. Continue with `ramet resume`"


@dataclass(frozen=True)
class MaskedSums:
    """Collects replies under masks, and learns their sum only."""

    clients: Direct
    config: str
    """A digest of the settings that all members of a sum have in common."""
    commit: Callable[[RunState], None]
    """Saves the state, so that a server that is killed goes on from here."""

    def collect(
        self, plan: Plan, state: RunState, asked: Asked, fold: Fold
    ) -> tuple[RunState, Tally]:
        state = self._agree_on_keys(plan, state)
        secure = SecureState.restored(state[SECURE])
        if secure.pending is None:
            state, secure = self._collect_masked(plan, state, asked, secure)
        assert secure.pending is not None
        tally, counting = Tally.restored(secure.pending.tally), Counting(plan.round)
        ask = self._asker(plan.round, counting)
        total, secure = sum_of(secure, secure.pending, plan.train, ask)
        fold.add_parts(total)
        later = replace(counting.tally().traffic(), failed={})
        tally = replace(tally + later, means=self._means(plan.round, fold.result().sums))
        return state.having(SECURE, secure.to_payload()), tally

    def _agree_on_keys(self, plan: Plan, state: RunState) -> RunState:
        secure, counting = SecureState.restored(state[SECURE]), Counting(plan.round)
        clients, last = tuple(self.clients.rules.clients), plan.last + 1
        ask = self._asker(plan.round, counting)
        agreed = with_keys(secure, clients, plan.round, last, ask)
        if agreed is secure:
            return state
        entries = Entries.of(state)
        uncounted = entries.uncounted + counting.tally().traffic()
        state = state.having(JOURNAL, replace(entries, uncounted=uncounted).payload())
        state = state.having(SECURE, agreed.to_payload())
        self.commit(state)
        log_event(INFO, "keys exchanged", round=plan.round, members=[*agreed.members])
        return state

    def _collect_masked(
        self, plan: Plan, state: RunState, asked: Asked, secure: SecureState
    ) -> tuple[RunState, SecureState]:
        """Add up the masked replies, and commit the sum with the list of survivors."""
        direct = self.clients
        needed = max(direct.quorum.replies, secure.needed)
        members = {client: names for client, names in asked.items() if client in secure.members}
        plan = replace(plan, notes=secure.notes(), quorum=needed)
        masked = direct.rules.fold(plan)
        _, tally = direct.collect(plan, state, members, masked)
        keyless = {c: "has no keys for this round" for c in asked if c not in members}
        tally = replace(tally, failed={**keyless, **tally.failed})
        survivors = tuple(sorted(tally.numbers))
        if len(survivors) < needed:
            raise QuorumError(plan, tally, needed, len(members))
        facts, context = tally.facts(), self._context(plan, state)
        pending = PendingSum(plan.round, survivors, masked.parts(), context, facts)
        secure = replace(secure, pending=pending)
        state = state.having(SECURE, secure.to_payload())
        self.commit(state)
        return state, secure

    def _context(self, plan: Plan, state: RunState) -> str:
        """A digest of what all members of a sum have in common."""
        rules = self.clients.rules
        _, message = Questions(rules, state, plan).about(rules.clients[0])
        return context_digest(message, self.config)

    def _means(self, number: int, sums: Arrays) -> dict[str, float]:
        """The means of clients' numbers, without those that cannot be right.

        Whose number is to blame for one that cannot be right is not known.
        """
        means, scores = means_of(sums), self.clients.rules.method.task.scale.range
        for name, mean in [*means.items()]:
            if reason := range_fault({name: mean}, scores):
                del means[name]
                log_event(WARNING, "mean refused", round=number, reason=reason)
        return means

    def _asker(self, number: int, counting: Counting) -> Ask:
        """Asks sites for a step of this round, and counts the messages."""
        delays = self.clients.quorum.retry_delays
        return asker(self.clients.wire, delays, number, counting, _NOT_COMMITTED)
