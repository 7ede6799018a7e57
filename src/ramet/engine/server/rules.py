"""The server's part of a method, with checks of what user-defined rules return."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any

import numpy as np
import torch
from torch import nn

from ramet.engine.server.plan import Plan
from ramet.engine.server.state import ACTIVITY, LOGGED, MERGING, RunState, extras_slice
from ramet.errors import RametError
from ramet.payload import Array, Arrays, Payload
from ramet.randomness import Randomness
from ramet.rules.activation import Asked, ReplyScores, requested
from ramet.rules.fixed_point import EXTRAS, PARAMETERS
from ramet.rules.fold import Fold, Folded, fold_of, rules_of
from ramet.rules.merging import NEW_CLIENT, Merging, Reply, Summing, sums_only
from ramet.rules.method import AssembledMethod, declared_extras, switchable_arrays
from ramet.rules.server import CPU, SERVER, Server, no_network


@dataclass(frozen=True)
class ServerRules:
    """Calls the rules of a method whose clients begin with ``start``."""

    method: AssembledMethod
    start: Arrays
    extras: Mapping[str, Arrays] = field(default_factory=dict)
    """The start values of extras, by the exchange in which clients send them."""
    clients: Sequence[str] = ()
    seed: int = 0
    final_clients: Sequence[str] | None = None
    """The clients that get the final merge at the end; None for all."""
    sends_start: bool = False
    """Whether clients are sent ``start`` in round 1, because they cannot draw it from the seed."""
    buffers: frozenset[str] = frozenset()
    """Names of shared arrays that are not trained."""
    network: Callable[[], nn.Module] = no_network
    """Builds a network for rules that train at the server, for ``shape`` and on ``device``."""
    shape: Any = None
    device: torch.device = CPU

    def first_state(self) -> RunState:
        """The state before round 1.

        A rule that cannot answer a new client fails here, before any client has trained.
        """
        merging = _checked(self.method.merging, self.method.merging.start(self.start), "start")
        self.sent(merging, NEW_CLIENT)
        state = RunState({MERGING: merging})
        for key, declared in declared_extras(self.method).items():
            if declared.rule is not None:
                own = _checked(declared.rule, declared.rule.start(self.extras[key]), "start")
                state = state.having(extras_slice(key), own)
        return state

    def asked(self, state: RunState, plan: Plan) -> Asked:
        """The clients of an exchange, each with the shared arrays that it need not send."""
        if not plan.train:
            return dict.fromkeys(self.final_clients or self.clients, ())
        return self.method.activation.ask(state[ACTIVITY], self._server(plan.round))

    def fold(self, plan: Plan) -> Fold:
        exchange = plan.exchange if plan.train else None
        return fold_of(self.method, exchange, len(self.clients))

    def step(self, state: RunState, plan: Plan, folded: Folded, scores: ReplyScores) -> RunState:
        """The state after an exchange with these replies, and the activation's scores of them."""
        if not plan.train:
            return state
        server = self._server(plan.round)
        state = self.merged(state, plan, folded, server)
        if plan.trains:
            activity = self.method.activation.settle(state[ACTIVITY], server, scores)
            state = state.having(ACTIVITY, activity)
        return replace(state.having(LOGGED, Payload(numbers=server.logged)), step=plan.step)

    def merged(
        self, state: RunState, plan: Plan, folded: Folded, server: Server | None = None
    ) -> RunState:
        """The state after replies were merged, before the activation and the journal know."""
        server, extras = server or self._server(plan.round), extras_slice(plan.exchange)
        for kind, rule in rules_of(self.method, plan.exchange).items():
            name = MERGING if kind == PARAMETERS else extras
            state = state.having(name, self._merged(rule, kind, state[name], folded, server))
        return state

    def _merged(
        self, rule: Merging, kind: str, own: Payload, folded: Folded, server: Server
    ) -> Payload:
        """The state of a rule after an exchange."""
        if folded.replies is None or sums_only(rule):
            assert isinstance(rule, Summing)
            sums = folded.sums_of(kind)
            return _checked(rule, rule.step(own, sums, server), "step") if sums else own
        replies = folded.replies
        if kind == EXTRAS:
            replies = [Reply(client, Payload(extras=one.extras)) for client, one in replies]
            if not replies:
                return own
        remaining = chain(replies)  # a rule could close a generator
        merged = rule.merge(own, remaining, server)
        if next(remaining, None) is not None:
            raise RametError(
                f"{type(rule).__name__}.merge returned before it had read all replies of the "
                "round. Read every reply: which come first differs between engines, and so would "
                "the result."
            )
        return _checked(rule, merged, "merge")

    def _server(self, number: int) -> Server:
        return Server(
            self.clients,
            Randomness(self.seed, SERVER, number),
            self.network,
            self.shape,
            self.device,
            switchable_arrays(self.method, self.start),
            self.buffers,
        )

    def sent(self, state: Payload, client: str, omitted: Sequence[str] = ()) -> dict[str, Array]:
        """The arrays that a client is sent; with ``keep_own`` without those it omits."""
        arrays = self._asked(state, client)
        left_out = omitted if self.method.activation.keep_own else ()
        names = (name for name in requested(arrays, left_out) if name in self.method.down)
        return {name: np.asarray(arrays[name]) for name in names}

    def new_client(self, state: Payload) -> Arrays:
        """The shared arrays of a client that joins now: those it starts with, and those sent."""
        return {**self.start, **self.sent(state, NEW_CLIENT)}

    def _asked(self, state: Payload, client: str) -> Arrays:
        """What the merging rule returns for a client."""
        try:
            arrays = self.method.merging.send(state, client)
        except LookupError as error:
            who = "a new client" if client == NEW_CLIENT else f"client {client}"
            raise RametError(
                f"{self._rule}.send failed for {who} ({error!r}). It is also called for clients "
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
            f"{self._rule}.send returned {returned}. Return a dict of NumPy arrays, under the "
            f"names of the shared arrays: {known}."
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
    if state.extras:
        raise RametError(
            f"{name}.{step} returned the extra '{next(iter(state.extras))}' in its state. Keep it "
            "among the `arrays` of the state."
        )
    return state
