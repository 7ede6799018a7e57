"""The record of a run: half of each round's is known when clients have trained, half later."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from logging import INFO, WARNING
from math import isnan
from typing import Any, TypeAlias

from ramet.engine.server.plan import Plan
from ramet.engine.server.state import LOGGED, MERGING, RunState
from ramet.engine.server.tally import Tally
from ramet.engine.store.checkpoint import Snapshots
from ramet.engine.store.timed_snapshots import ServerSnapshots
from ramet.events import log_event
from ramet.metrics import Record
from ramet.metrics.best import History
from ramet.payload import Payload
from ramet.rules.method import AssembledMethod, step_of
from ramet.scale import Scale

BEST = "best"
"""The folder, below the server's snapshots, with those of the best rounds."""
JOURNAL = "journal"
"""The slice of the run's state."""
Observer: TypeAlias = Callable[[Record], None]
Overview: TypeAlias = Callable[[RunState], Mapping[str, float]]
"""Evaluates the server's arrays on all data at once."""


@dataclass(frozen=True)
class Entries:
    """What the journal keeps between exchanges."""

    pending: Mapping[str, Any]
    """The first half of the last round's record; it lacks the evaluation."""
    last: Mapping[str, int]
    """The last round in which each client replied."""
    uncounted: Tally
    """Messages that no record has counted yet."""

    @staticmethod
    def of(state: RunState) -> Entries:
        facts = {name: json.loads(note) for name, note in state[JOURNAL].notes.items()}
        uncounted = Tally.restored(facts.get("uncounted", {}))
        return Entries(facts.get("pending", {}), facts.get("last", {}), uncounted)

    def payload(self) -> Payload:
        facts = {"pending": self.pending, "last": self.last, "uncounted": self.uncounted.facts()}
        return Payload(notes={name: json.dumps(fact) for name, fact in facts.items()})


@dataclass(frozen=True)
class Journal:
    """Writes a record of each round that has been evaluated, and keeps the best rounds."""

    method: AssembledMethod
    rounds: int
    history: History
    observe: Observer
    snapshots: ServerSnapshots
    overview: Overview

    def entered(self, state: RunState, plan: Plan, tally: Tally) -> RunState:
        """The state with what is recorded of an exchange."""
        entries = Entries.of(state)
        whole = entries.uncounted + tally
        if not plan.train:  # there is no later record for what failed
            failed = {**whole.failed, **entries.pending["failed"]}
            self._evaluated({**entries.pending, "failed": failed}, whole, plan)
            return state
        if plan.trains:
            if entries.pending:
                self._evaluated(entries.pending, whole, plan)
            entries = self._trained(state, plan, entries, whole)
        else:
            entries = replace(entries, uncounted=whole.traffic())
        return state.having(JOURNAL, entries.payload())

    def _trained(self, state: RunState, plan: Plan, before: Entries, whole: Tally) -> Entries:
        pending = {
            "round": plan.round,
            **whole.first_half(),
            "overview": dict(self.overview(state)),
            "merging": {**state[MERGING].numbers, **state[LOGGED].numbers},
            "start": whole.evaluated() if plan.round == 1 else {},
        }
        # the record of round 1 also counts what is sent in round 2
        uncounted = Tally() if before.pending else whole.only_down()
        return Entries(pending, {**before.last, **whole.asked}, uncounted)

    def _evaluated(self, pending: Mapping[str, Any], tally: Tally, plan: Plan) -> None:
        facts = {**pending, "rounds": self.rounds, "unit": self.history.scale.unit}
        record = Record(**facts, **tally.second_half())
        if record.round == 1 and plan.train and isnan(record.mean("val")):
            reason = "no client has sent its scores: there is no best round and no early stop"
            log_event(WARNING, "no scores", round=record.round, reason=reason)
        self._keep_best(record)
        self.observe(record)

    def _keep_best(self, record: Record) -> None:
        """Keep the snapshot of a round that may be the best, before the next one is saved.

        Earlier candidates stay, in case the server is killed now and this round is evaluated again.
        """
        before = self.history.candidates()
        self.history.add(record)
        if record.round in self.history.candidates():
            best = Snapshots(self.snapshots.folder / BEST, keep=1)
            step = step_of(self.method, record.round)
            self.snapshots.share(step, best, as_step=record.round, pinned=before)


def history_of(earlier: Iterable[Record], clients: Iterable[str], scale: Scale) -> History:
    history = History(frozenset(clients), scale)
    for record in earlier:
        history.add(record)
    return history


def committed(plan: Plan, tally: Tally) -> None:
    """Log an exchange that is done."""
    answered = sorted(tally.numbers)
    if plan.stage is not None:
        facts = {"stage": plan.stage.name, "answered": answered}
        log_event(INFO, "stage committed", round=plan.round, **facts)
    else:
        seconds = round(tally.seconds, 3)
        log_event(INFO, "round committed", round=plan.round, seconds=seconds, answered=answered)
