"""Servers of servers: a regional coordinator asks its clients, and passes on one reply.

The central server sends each region the state of its rules and the names of the clients to ask. The
region asks them as a server without regions would, checks their replies, and adds up their terms.
It passes on the sum before it is rounded, and the numbers of each client. Sums do not depend on the
order of their terms (:mod:`ramet.rules.merging`), so the result has the same bits as without
regions. A region keeps nothing between two messages, so it may be restarted at any time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from logging import INFO

from pydantic import BaseModel, ConfigDict, ValidationError

from ramet.engine.check import SCORES, Range, numbers_fault
from ramet.engine.server.collector import Direct, Quorum
from ramet.engine.server.journal import JOURNAL, Entries
from ramet.engine.server.plan import Plan
from ramet.engine.server.rules import ServerRules
from ramet.engine.server.state import MERGING, RunState, extras_slice
from ramet.engine.server.tally import COUNTS, Counting, Tally
from ramet.engine.server.wire import Refused, Wire
from ramet.engine.store.checkpoint import Snapshot
from ramet.errors import RametError, one_line
from ramet.events import log_event
from ramet.payload import Payload
from ramet.rules.activation import Asked
from ramet.rules.fold import Fold
from ramet.rules.method import AssembledMethod, step_of

_STATE, _EXCHANGE = "state", "exchange"
"""Notes of messages: the rules' state without arrays, and whom to ask, or who has answered."""


class RegionalFacts(BaseModel):
    """What a region has sent and received, by client, in the form of a message."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    down: dict[str, int]
    numbers: dict[str, dict[str, int | float]]
    failed: dict[str, str]
    sent: tuple[int, int]
    digests: dict[str, str]
    asked: dict[str, int]
    scores: dict[str, dict[str, float]]

    @staticmethod
    def of(tally: Tally) -> RegionalFacts:
        return RegionalFacts(
            down=dict(tally.down),
            numbers={client: {**own, **tally.up[client]} for client, own in tally.numbers.items()},
            failed=dict(tally.failed),
            sent=tally.sent,
            digests=dict(tally.digests),
            asked=dict(tally.asked),
            scores={client: _floats(own) for client, own in tally.scores.items()},
        )

    def tally(self) -> Tally:
        return Tally(
            down=self.down,
            up={c: {name: own[name] for name in COUNTS} for c, own in self.numbers.items()},
            numbers={
                client: {name: number for name, number in own.items() if name not in COUNTS}
                for client, own in self.numbers.items()
            },
            failed={client: one_line(reason) for client, reason in self.failed.items()},
            sent=self.sent,
            digests=self.digests,
            asked=self.asked,
            scores=self.scores,
        )

    def fault(self, plan: Plan, scores: Range) -> str | None:
        """What they do not say about a client whose reply is in the sum."""
        for by_client in (self.asked, *((self.scores,) if plan.trains else ())):
            if unequal := self.numbers.keys() ^ by_client.keys():
                return f"does not say enough about {min(unequal)}"
        for client, numbers in self.numbers.items():
            due = (*COUNTS, *(SCORES if SCORES[0] in numbers else ()))
            if reason := numbers_fault(numbers, plan.train, due, scores):
                return f"says something wrong about {client}: {reason}"
        return None

    def clients(self) -> set[str]:
        named = (self.down, self.numbers, self.failed, self.digests, self.asked, self.scores)
        return {client for by_client in named for client in by_client}


class _Task(BaseModel):
    """What a region is asked to do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    last: int
    """The last round that clients train."""
    clients: dict[str, list[str]]
    """The clients to ask, each with the shared arrays that it need not send."""
    candidates: list[int]
    stage: str | None


@dataclass(frozen=True)
class Region:
    """A regional coordinator, which asks its clients as a server without regions would."""

    clients: Direct

    def answer(self, request: Payload) -> Payload:
        """Ask the clients once, and return the sum of their terms and their numbers."""
        rules = self.clients.rules
        state, asked, plan = _read(request, rules.method)
        fold, counting = rules.fold(plan), Counting(plan.round)
        for client, reply, _ in self.clients.replies(plan, state, asked, counting):
            if plan.train:
                fold.add(client, reply)
        facts = RegionalFacts.of(counting.tally()).model_dump_json()
        return Payload(fold.parts(), notes={_EXCHANGE: facts})


@dataclass(frozen=True)
class Regional:
    """Asks each region for the sum over its clients. The wire is to the regions."""

    rules: ServerRules
    regions: Mapping[str, Sequence[str]]
    """The clients of each region."""
    wire: Wire
    quorum: Quorum

    def collect(
        self, plan: Plan, state: RunState, asked: Asked, fold: Fold
    ) -> tuple[RunState, Tally]:
        def ask(missing: Asked, counting: Counting) -> None:
            self._ask(plan, state, missing, fold, counting)

        return state, self.quorum.collect(plan, asked, ask)

    def _ask(
        self, plan: Plan, state: RunState, asked: Asked, fold: Fold, counting: Counting
    ) -> None:
        own_of = {
            region: {client: asked[client] for client in clients if client in asked}
            for region, clients in self.regions.items()
        }
        requests = ((region, _request(state, own, plan)) for region, own in own_of.items() if own)
        for region, reply in self.wire.exchange(requests):
            own = own_of[region]
            facts = reply if isinstance(reply, str) else self._facts(reply, own, plan, fold)
            if isinstance(reply, str) or isinstance(facts, str):
                received = isinstance(reply, Refused | Payload)
                for client in own:
                    counting.fault(client, f"{region}: {facts}", received)
                continue
            counting.others(facts.tally())
            counts = {"asked": len(own), "answered": len(facts.numbers), "bytes": reply.nbytes}
            log_event(INFO, "region answered", round=plan.round, region=region, **counts)
            fold.add_parts(reply.arrays)

    def _facts(self, reply: Payload, asked: Asked, plan: Plan, fold: Fold) -> RegionalFacts | str:
        """The facts in a region's reply, or what is wrong with the reply."""
        try:
            facts = RegionalFacts.model_validate_json(reply.notes[_EXCHANGE])
        except (KeyError, ValidationError):
            return "is not the reply of a regional coordinator"
        if foreign := facts.clients() - {*asked}:
            return f"answers for {min(foreign)}, about whom it was not asked"
        scores = self.rules.method.task.scale.range
        return facts.fault(plan, scores) or fold.parts_fault(reply.arrays) or facts


def _request(state: RunState, asked: Asked, plan: Plan) -> Payload:
    """The message to a region: the state of the rules, and whom to ask for what."""
    entries = Entries.of(state)
    last = {client: entries.last[client] for client in asked if client in entries.last}
    slices = {name: state[name] for name in (MERGING, *map(extras_slice, state.extras))}
    known = RunState(slices).having(JOURNAL, Entries({}, last, Tally()).payload()).snapshot()
    task = _Task(
        last=plan.last,
        clients={client: [*names] for client, names in asked.items()},
        candidates=[*plan.candidates],
        stage=plan.stage.name if plan.stage else None,
    )
    return Payload(
        known.arrays,
        {"round": plan.round, "train": int(plan.train)},
        {_STATE: json.dumps(known.facts), _EXCHANGE: task.model_dump_json()},
    )


def _read(request: Payload, method: AssembledMethod) -> tuple[RunState, Asked, Plan]:
    try:
        task = _Task.model_validate_json(request.notes[_EXCHANGE])
        facts, number = json.loads(request.notes[_STATE]), int(request.numbers["round"])
        state = RunState.restored(Snapshot(number, request.arrays, facts))
        stages = {stage.name: stage for stage in method.stages}
        stage = stages[task.stage] if task.stage is not None else None
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise RametError(f"not a message to a regional coordinator ({error!r}).") from error
    step = step_of(method, number, stage)
    return state, task.clients, Plan(number, task.last, step, stage, task.candidates)


def _floats(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: float(number) for name, number in numbers.items()}
