"""What the server asks each client, and how it checks the replies."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

import numpy as np

from ramet.engine.check import distance_fault, due_numbers, fault, same_form, summand_fault
from ramet.engine.messages import request
from ramet.engine.server.journal import Entries
from ramet.engine.server.plan import Plan
from ramet.engine.server.rules import ServerRules
from ramet.engine.server.state import MERGING, RunState
from ramet.engine.start import extras_up
from ramet.errors import RametError
from ramet.payload import Array, Arrays, Payload
from ramet.policy import expected_numbers
from ramet.rules.activation import requested
from ramet.rules.extras import TRAINING
from ramet.rules.fixed_point import terms_of
from ramet.rules.method import declared_extras, sent_up, switchable_arrays


@dataclass(frozen=True)
class Question:
    """What a client was asked, to which it has not answered yet."""

    plan: Plan
    omitted: Sequence[str]
    """The shared arrays that it need not send."""
    sent: Arrays
    """The shared arrays with which it begins the round."""


class ReplyCheck(Protocol):
    """Protocol of checks of replies, which depend on the form in which replies leave a site."""

    def arrived(self, reply: Payload, question: Question) -> Payload | str:
        """The reply as it is merged, or what is wrong with it."""
        ...


@dataclass(frozen=True)
class Questions:
    """The messages of an exchange, without what clients have or do not need yet."""

    rules: ServerRules
    state: RunState
    plan: Plan

    def about(self, client: str, omitted: Sequence[str] = ()) -> tuple[Question, Payload]:
        """What a client is asked, and the message."""
        plan, sent = self.plan, self.sent(client, omitted)
        in_stage = plan.stage is not None
        has_them = not self.rules.sends_start if plan.round == 1 else in_stage
        message = request(
            plan.round,
            plan.train,
            {} if has_them else sent,
            self._last.get(client, 0),
            () if in_stage else omitted,
            self._extras(client),
            plan.stage,
            plan.candidates,
        )
        message = replace(message, notes={**message.notes, **plan.notes})
        return Question(plan, omitted, sent), message

    def sent(self, client: str, omitted: Sequence[str] = ()) -> dict[str, Array]:
        """The arrays that a client begins a round with."""
        sent = self.rules.sent(self.state[MERGING], client, omitted)
        return {name: self.rules.start[name] for name in sent} if self.plan.round == 1 else sent

    @cached_property
    def _last(self) -> Mapping[str, int]:
        """The last round for which the server has a client's reply."""
        return Entries.of(self.state).last

    def _extras(self, client: str) -> dict[str, Array]:
        """The extras that a client is sent."""
        sent: dict[str, Array] = {}
        for key, own in self._known_extras.items():
            if self._has_kept(client, key):
                continue
            declared, start = declared_extras(self.rules.method)[key], self.rules.extras[key]
            assert declared.rule is not None
            arrays = declared.rule.send(own, client)
            for name in (name for name in start if name in declared.down and name in arrays):
                array = np.asarray(arrays[name])
                if not same_form(array, start[name]):
                    raise RametError(
                        f"{type(declared.rule).__name__} has '{name}' as {_form(array)} for "
                        f"clients, but {self.rules.method.name} expects {_form(start[name])}, as "
                        "its start value. Convert it in `step`, for example with "
                        "`.astype(np.float32)`."
                    )
                sent[name] = array
        return sent

    def _has_kept(self, client: str, exchange: str) -> bool:
        """Whether the client has the result of a stage from a round to which it has replied."""
        ends = [stage.last for stage in self.rules.method.stages if stage.name == exchange]
        return any(end is not None and self._last.get(client, 0) >= end for end in ends)

    @cached_property
    def _known_extras(self) -> Mapping[str, Payload]:
        """The states of extras that clients need: in round 1 those of stages that are over."""
        state, plan = self.state, self.plan
        if not plan.train:
            return {}
        if plan.round > 1:
            return {k: own for k, own in state.extras.items() if plan.trains or k != TRAINING}
        names = [stage.name for stage in self.rules.method.stages if stage.in_round(plan.round)]
        over = names if plan.stage is None else names[: names.index(plan.stage.name)]
        return {key: own for key, own in state.extras.items() if key in over}


def score_of(
    rules: ServerRules, question: Question, reply: Payload, received: Arrays
) -> Mapping[str, float] | None:
    """The activation's score of a reply. Only arrays that were sent can be compared."""
    if not question.plan.trains:
        return None
    method, sent = rules.method, question.sent
    names = [name for name in switchable_arrays(method, received) if name in sent]
    return method.activation.score(sent, {name: received[name] for name in names}, reply.numbers)


@dataclass(frozen=True)
class WholeReplies:
    """Checks replies whose arrays the server sees."""

    rules: ServerRules
    norm_bound: float | None = None
    """Refuse replies that are further than this from what was sent; None for no bound."""

    def arrived(self, reply: Payload, question: Question) -> Payload | str:
        plan, method = question.plan, self.rules.method
        begun, expected = self._begun(question), expected_reply(self.rules, question)
        form = expected
        for release in method.release:
            form = release.form(form, begun)
        evaluates = plan.round > 1 or (self.rules.sends_start and bool(question.sent))
        due = due_numbers(plan.train, evaluates) if plan.stage is None else ()
        due = expected_numbers(reply, due)
        reason = fault(reply, form, plan.train, due, method.task.scale.range)
        if reason:
            return reason
        for release in reversed(method.release):
            reply = release.arrive(reply, begun)
        if method.release:
            reason = fault(reply, expected, plan.train)
        declared = declared_extras(method).get(plan.exchange)
        if not reason and declared and reply.extras:
            reason = declared.fault(reply.extras)
        if reason or not plan.trains:
            return reason or reply
        reason = method.fault(reply.arrays)
        return reason or distance_fault(reply.arrays, question.sent, self.norm_bound) or reply

    def _begun(self, question: Question) -> dict[str, Array]:
        """The parameters with which a client has begun to train, as its releases know them."""
        if not question.plan.trains:
            return {}
        start, down = self.rules.start, self.rules.method.down
        first = {name: array for name, array in start.items() if name in down}
        arrays = question.sent if question.plan.round > 1 else first
        return {name: array for name, array in arrays.items() if name not in self.rules.buffers}


@dataclass(frozen=True)
class Summands:
    """Checks replies whose arrays are encoded terms, and perhaps masked."""

    rules: ServerRules
    in_clear: bool
    """Whether the numbers of a reply are beside its terms, too."""

    def arrived(self, reply: Payload, question: Question) -> Payload | str:
        plan, method = question.plan, self.rules.method
        assert method.summation is not None
        expected = expected_reply(self.rules, question)
        weighted = replace(expected, numbers={"weight": 1.0})
        terms = method.summation.form(terms_of(method.merging, method.extras, weighted))
        due = due_numbers(plan.train, evaluate=plan.round > 1) if self.in_clear else ()
        due = expected_numbers(reply, due)
        clear = plan.train and self.in_clear
        return summand_fault(reply, terms, clear, due, method.task.scale.range) or reply


def expected_reply(rules: ServerRules, question: Question) -> Payload:
    """A payload with the names, shapes and types of the arrays of a client's reply."""
    plan, method = question.plan, rules.method
    if not plan.train:
        return Payload()
    extras = extras_up(method, rules.extras, plan.exchange)
    names = requested(sent_up(method, rules.start), question.omitted)
    return Payload({name: rules.start[name] for name in names if plan.trains}, extras=extras)


def _form(array: Array) -> str:
    return f"{array.dtype}{list(array.shape)}"
