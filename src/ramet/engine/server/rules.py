"""The server's part of a method, with checks of what user-defined rules return."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from ramet.engine.check import same_form
from ramet.engine.server.state import RESERVED
from ramet.engine.start import extras_up
from ramet.errors import RametError
from ramet.payload import Array, Arrays, Payload
from ramet.rules.activation import requested
from ramet.rules.fixed_point import rule_of, terms_of
from ramet.rules.merging import NEW_CLIENT, Merging, Reply, Summing, Total
from ramet.rules.method import AssembledMethod, declared_extras, sent_up, switchable_arrays
from ramet.rules.server import Server


@dataclass(frozen=True)
class ReceivedExtras:
    """The extras of an exchange: added up, or kept for a rule that sees each of them."""

    rule: Merging | None
    total: Total = field(default_factory=Total)
    compared: list[Reply] = field(default_factory=list)

    def passing(self, replies: Iterable[Reply]) -> Iterator[Reply]:
        """Pass replies on, and take their extras."""
        for client, reply in replies:
            if isinstance(self.rule, Summing):
                self.total.add(self.rule.term(reply))
            elif self.rule is not None:
                self.compared.append((client, Payload(extras=reply.extras)))
            yield client, reply


@dataclass(frozen=True)
class ServerRules:
    """Calls the merging and activation rules of a method whose clients begin with ``start``."""

    method: AssembledMethod
    start: Arrays
    extras: Mapping[str, Arrays] = field(default_factory=dict)
    """The start values of extras, by the exchange in which clients send them."""

    def first_state(self) -> Payload:
        """The merging rule's state before round 1.

        A rule that cannot answer a new client fails here, before any client has trained.
        """
        state = _checked(self.method.merging, self.method.merging.start(self.start), "start")
        self.sent(state, NEW_CLIENT)
        return state

    def first_extras(self) -> dict[str, Payload]:
        """The states of the rules for extras before round 1."""
        return {
            key: _checked(declared.rule, declared.rule.start(self.extras[key]), "start")
            for key, declared in declared_extras(self.method).items()
            if declared.rule is not None
        }

    def sent_extras(self, states: Mapping[str, Payload], client: str) -> dict[str, Array]:
        """The extras that a client is sent."""
        sent: dict[str, Array] = {}
        for key, state in states.items():
            declared = declared_extras(self.method)[key]
            assert declared.rule is not None
            arrays = declared.rule.ask(state, client)
            names = [name for name in self.extras[key] if name in declared.down and name in arrays]
            for name in names:
                array, start = np.asarray(arrays[name]), self.extras[key][name]
                if not same_form(array, start):
                    raise RametError(
                        f"{type(declared.rule).__name__} has '{name}' as {_form(array)} for "
                        f"clients, but {self.method.name} expects {_form(start)}, as its start "
                        f"value. Convert it in `step`, for example with `.astype(np.float32)`."
                    )
                sent[name] = array
        return sent

    def expected_extras(self, exchange: str) -> Arrays:
        """Arrays with the names, shapes and types of the extras that a client should send."""
        return extras_up(self.method, self.extras, exchange)

    def extras_flaw(self, reply: Payload, exchange: str) -> str | None:
        """What is wrong with the values of a reply's extras, if there are any."""
        declared = declared_extras(self.method).get(exchange)
        return declared.flaw(reply.extras) if declared and reply.extras else None

    def stepped(self, exchange: str, state: Payload, total: Arrays, server: Server) -> Payload:
        """The state of a rule that sums extras after an exchange."""
        rule = declared_extras(self.method)[exchange].rule
        assert isinstance(rule, Summing)
        return _checked(rule, rule.step(state, total, server), "step")

    def merged_extras(
        self, exchange: str, state: Payload, replies: Sequence[Reply], server: Server
    ) -> Payload:
        """The state of a rule that sees each reply's extras after an exchange."""
        rule = declared_extras(self.method)[exchange].rule
        assert rule is not None
        return _checked(rule, rule.merge(state, replies, server), "merge")

    def sent(self, state: Payload, client: str, spared: Sequence[str] = ()) -> dict[str, Array]:
        """The arrays that a client is sent; with ``keep_own`` without those it is spared."""
        arrays = self._asked(state, client)
        left_out = spared if self.method.activation.keep_own else ()
        names = (name for name in requested(arrays, left_out) if name in self.method.down)
        return {name: np.asarray(arrays[name]) for name in names}

    def new_client(self, state: Payload) -> Arrays:
        """The shared arrays of a client that joins now: those it starts with, and those sent."""
        return {**self.start, **self.sent(state, NEW_CLIENT)}

    def expected(self, spared: Sequence[str]) -> Arrays:
        """Arrays with the names, shapes and types of those that a client should send."""
        names = requested(sent_up(self.method, self.start), spared)
        return {name: self.start[name] for name in names}

    def merged(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        """The merging rule's state after a round; raise RametError if it left replies unread."""
        remaining = chain(replies)  # a rule could close a generator
        merged = self.method.merging.merge(state, remaining, server)
        if next(remaining, None) is not None:
            raise RametError(
                f"{self._rule}.merge returned before it had read all replies of the round. Read "
                "every reply: which come first differs between engines, and so would the result."
            )
        return _checked(self.method.merging, merged, "merge")

    def summed(self, state: Payload, total: Arrays, server: Server) -> Payload:
        """The merging rule's state after a round, given the sums of its terms."""
        rule = rule_of(self.method)
        return _checked(rule, rule.step(state, total, server), "step")

    def expected_terms(self, spared: Sequence[str], train: bool, exchange: str) -> Arrays:
        """Arrays with the names, shapes and types of the terms that a client should send."""
        assert self.method.summation is not None
        extras = self.expected_extras(exchange) if train else {}
        arrays = self.expected(spared) if train else {}
        reply = Payload(arrays, {"weight": 1.0}, extras=extras)
        return self.method.summation.form(terms_of(self.method, reply))

    def score(
        self, sent: Arrays, received: Arrays, numbers: Mapping[str, float]
    ) -> Mapping[str, float]:
        """The activation's score of a reply. Only arrays that were sent can be compared."""
        names = [name for name in switchable_arrays(self.method, received) if name in sent]
        scored = {name: received[name] for name in names}
        return self.method.activation.score(sent, scored, numbers)

    def _asked(self, state: Payload, client: str) -> Arrays:
        """What the merging rule returns for a client."""
        try:
            arrays = self.method.merging.ask(state, client)
        except LookupError as error:
            who = "a new client" if client == NEW_CLIENT else f"client {client}"
            raise RametError(
                f"{self._rule}.ask failed for {who} ({error!r}). It is also called for clients "
                "that have not replied yet: return what such a client should start from, for "
                "example the arrays given to `start`."
            ) from error
        if not isinstance(arrays, Mapping):
            raise self._wrong_answer(type(arrays).__name__)
        for name, array in arrays.items():
            if name not in self.start:
                raise self._wrong_answer(f"'{name}', which is not shared")
            if not isinstance(array, np.ndarray | np.generic):
                raise self._wrong_answer(f"{type(array).__name__} as '{name}'")
        return arrays

    def _wrong_answer(self, returned: str) -> RametError:
        known = ", ".join(self.start) or "none"
        return RametError(
            f"{self._rule}.ask returned {returned}. Return a dict of NumPy arrays, under the names "
            f"of the shared arrays: {known}."
        )

    @property
    def _rule(self) -> str:
        return type(self.method.merging).__name__


def _checked(rule: Merging, state: Payload, step: str) -> Payload:
    name = type(rule).__name__
    if not isinstance(state, Payload):
        raise RametError(
            f"{name}.{step} returned {type(state).__name__} instead of the rule's state, a Payload."
        )
    reserved = [array for array in state.arrays if array.startswith(RESERVED)]
    if reserved or state.extras:
        names = reserved or [*state.extras]
        raise RametError(
            f"{name}.{step} returned '{names[0]}' in its state. Give the arrays of a state names "
            f"that do not start with {' or '.join(RESERVED)}, and no extras."
        )
    return state


def _form(array: Array) -> str:
    return f"{array.dtype}{list(array.shape)}"
