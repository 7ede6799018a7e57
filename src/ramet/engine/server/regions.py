"""Servers of servers: a regional coordinator asks its clients, and passes on one reply.

The central server sends each region the state of its rules and the names of the clients to ask. The
region asks them as a server without regions would, checks their replies, and adds up their terms.
It passes on the sum before it is rounded, and the numbers of each client. Sums do not depend on the
order of their terms (:mod:`ramet.rules.merging`), so the result has the same bits as without
regions. A region keeps nothing between two messages, so it may be restarted at any time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from pydantic import BaseModel, ConfigDict, ValidationError

from ramet.engine.check import SCORES, Range, numbers_fault
from ramet.engine.server.exchange import COUNTS, Exchange
from ramet.engine.server.state import RunState
from ramet.engine.store.checkpoint import Snapshot
from ramet.errors import RametError
from ramet.payload import Array, Arrays, Payload
from ramet.rules.activation import Spared
from ramet.rules.extras import TRAINING
from ramet.rules.fixed_point import EXTRAS, PARAMETERS, RingTotal, rule_of
from ramet.rules.merging import Summing, Total
from ramet.rules.method import AssembledMethod, declared_extras
from ramet.tasks import score_range

if TYPE_CHECKING:
    from ramet.engine.server.rounds import Rounds
    from ramet.engine.server.wire import Wire

_STATE, _EXCHANGE = "state", "exchange"
"""Notes of messages: the rules' state without arrays, and whom to ask, or who has answered."""


class RegionalFacts(BaseModel):
    """What a region has sent and received, by client; the fields are those of an ``Exchange``."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)

    down: dict[str, int]
    numbers: dict[str, dict[str, int | float]]
    failed: dict[str, str]
    sent: tuple[int, int]
    digests: dict[str, str]
    asked: dict[str, int]
    scores: dict[str, dict[str, float]]

    @staticmethod
    def of(exchange: Exchange) -> RegionalFacts:
        tensors, scalars = exchange.sent
        return RegionalFacts(
            down=exchange.down,
            numbers=exchange.numbers,
            failed=exchange.failed,
            sent=(tensors, scalars),
            digests=exchange.digests,
            asked=exchange.asked,
            scores={client: _floats(own) for client, own in exchange.scores.items()},
        )

    def clients(self) -> set[str]:
        named = (self.down, self.numbers, self.failed, self.digests, self.asked, self.scores)
        return {client for by_client in named for client in by_client}


class _Task(BaseModel):
    """What a region is asked to do."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    rounds: int
    clients: dict[str, list[str]]
    """The clients to ask, each with the shared arrays that it need not send."""
    candidates: list[int]
    stage: str | None


class RegionalSum:
    """The sum of the terms of an exchange, to which sums of regions can be added."""

    def __init__(self, method: AssembledMethod, exchange: str) -> None:
        self._method, self._exchange = method, exchange
        self._floats, self._ring = Total(), RingTotal()

    def add(self, reply: Payload) -> None:
        """Add the terms of a client's reply."""
        if self._method.summation is not None:
            self._ring.add(reply.arrays)
        else:
            self._floats.add(self._terms(reply))

    def parts(self) -> Arrays:
        """The sum before it is rounded."""
        return self._floats.parts() if self._method.summation is None else self._ring.arrays

    def add_parts(self, parts: Arrays) -> None:
        """Add the sum of a region."""
        if self._method.summation is not None:
            self._ring.add(parts)
        else:
            self._floats.add_parts(parts)

    def sums(self, clients: int) -> Arrays:
        """The sums by parameter and extra, in float64."""
        if self._method.summation is not None:
            return self._method.summation.decode(self._ring.arrays, clients)
        return self._floats.arrays()

    def _terms(self, reply: Payload) -> dict[str, Array]:
        terms: dict[str, Array] = {}
        if self._exchange == TRAINING:
            terms |= _prefixed(PARAMETERS, rule_of(self._method).term(reply))
        declared = declared_extras(self._method).get(self._exchange)
        if declared is not None and isinstance(declared.rule, Summing):
            terms |= _prefixed(EXTRAS, declared.rule.term(reply))
        return terms


@dataclass(frozen=True)
class Region:
    """A regional coordinator: the rounds that it has in common with the server, and its clients."""

    rounds: Rounds
    wire: Wire

    def answer(self, request: Payload) -> Payload:
        """Ask the clients once, and return the sum of their terms and their numbers."""
        method = self.rounds.method
        state, spared, exchange = _read(request, method)
        total = RegionalSum(method, exchange.key)
        for _, reply in self.rounds.valid_replies(self.wire, spared, state, exchange):
            if exchange.train:
                total.add(reply)
        facts = RegionalFacts.of(exchange).model_dump_json()
        return Payload(total.parts(), notes={_EXCHANGE: facts})


def regional_request(state: RunState, spared: Spared, exchange: Exchange) -> Payload:
    """The message to a region whose clients are asked for all arrays but those they are spared."""
    last = {client: state.last[client] for client in spared if client in state.last}
    known = RunState(state.merging, state.extras, last=last).snapshot(exchange.round)
    task = _Task(
        rounds=exchange.rounds,
        clients={client: [*names] for client, names in spared.items()},
        candidates=[*exchange.candidates],
        stage=exchange.stage.name if exchange.stage else None,
    )
    return Payload(
        known.arrays,
        {"round": exchange.round, "train": int(exchange.train)},
        {_STATE: json.dumps(known.facts), _EXCHANGE: task.model_dump_json()},
    )


def _read(request: Payload, method: AssembledMethod) -> tuple[RunState, Spared, Exchange]:
    try:
        task = _Task.model_validate_json(request.notes[_EXCHANGE])
        facts, number = json.loads(request.notes[_STATE]), int(request.numbers["round"])
        state = RunState.restored(Snapshot(number, request.arrays, facts))
        stages = {stage.name: stage for stage in method.stages}
        stage = stages[task.stage] if task.stage is not None else None
    except (KeyError, ValueError, TypeError, AttributeError) as error:
        raise RametError(f"not a message to a regional coordinator ({error!r}).") from error
    exchange = Exchange(number, task.rounds, stage=stage, candidates=task.candidates)
    return state, task.clients, exchange


def regional_facts(
    reply: Payload, asked: Spared, method: AssembledMethod, exchange: Exchange
) -> RegionalFacts | str:
    """The facts in a region's reply, or what is wrong with the reply."""
    try:
        facts = RegionalFacts.model_validate_json(reply.notes[_EXCHANGE])
    except (KeyError, ValidationError):
        return "is not the reply of a regional coordinator"
    if foreign := facts.clients() - {*asked}:
        return f"answers for {min(foreign)}, about whom it was not asked"
    return (
        _facts_fault(facts, exchange, score_range(method.task))
        or _sum_fault(reply.arrays, method)
        or facts
    )


def _facts_fault(facts: RegionalFacts, exchange: Exchange, scores: Range) -> str | None:
    """What a region does not say about a client whose reply is in its sum."""
    scored = exchange.train and exchange.stage is None
    for by_client in (facts.asked, *((facts.scores,) if scored else ())):
        if unequal := facts.numbers.keys() ^ by_client.keys():
            return f"does not say enough about {min(unequal)}"
    for client, numbers in facts.numbers.items():
        due = (*COUNTS, *(SCORES if SCORES[0] in numbers else ()))
        if reason := numbers_fault(numbers, exchange.train, due, scores):
            return f"says something wrong about {client}: {reason}"
    return None


def _sum_fault(parts: Arrays, method: AssembledMethod) -> str | None:
    """What is wrong with the sum of a region."""
    dtype = np.dtype(np.float64) if method.summation is None else method.summation.dtype
    for name, array in parts.items():
        if array.dtype != dtype:
            return f"has {name} as {array.dtype} instead of {dtype}"
        if not np.isfinite(array).all():
            return f"has {name}, which is not finite"
    is_whole = method.summation is not None or Total.are_parts(parts)
    return None if is_whole else "has only a part of a sum"


def _prefixed(prefix: str, arrays: Arrays) -> dict[str, Array]:
    return {prefix + name: np.asarray(array) for name, array in arrays.items()}


def _floats(numbers: Mapping[str, float]) -> dict[str, float]:
    return {name: float(number) for name, number in numbers.items()}
