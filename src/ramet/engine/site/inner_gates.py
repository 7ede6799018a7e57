"""The gates inside a client's state, which is saved once a reply has passed them."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from ramet.engine.messages import PRIVATE_STATE
from ramet.engine.secure_messages import QUESTIONS
from ramet.engine.site.gates import (
    Inside,
    R,
    SameForm,
    with_notes,
    without_notes,
    zero_arrays,
)
from ramet.engine.site.limit import SiteLimit
from ramet.engine.site.private_site import PrivateSite
from ramet.engine.site.request import NotSharedError, Opened, Request
from ramet.engine.store.client_state import model_arrays
from ramet.payload import Arrays, Payload, digest
from ramet.policy import WITHHELD, Numbers
from ramet.rules.fixed_point import FixedPoint, terms_of
from ramet.rules.method import AssembledMethod
from ramet.rules.release import Exit, Release


@dataclass(frozen=True)
class Declared(SameForm):
    """Lets out what the method declares and the site's own limit, if it has one, allows."""

    limit: SiteLimit | None = None

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        reply = inside(request)
        self.check(request, reply)
        return reply

    def check(self, request: Request, reply: Payload) -> None:
        request.check_shared(reply.arrays, "send")
        if self.limit is None:
            return
        for name in self.limit.forbidden(reply, request.shape, request.seed):
            raise NotSharedError(
                f"client {request.client} refuses to send '{name}', which the site's own settings "
                "do not allow."
            )


@dataclass(frozen=True)
class Undisclosed(SameForm):
    """Keeps the digest of the private state here.

    Whoever guesses the data could compute the same, and know that the guess is right.
    """

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        return self.form(inside(request), {})

    def form(self, form: Payload, sent: Arrays) -> Payload:  # noqa: ARG002
        return without_notes(form, (PRIVATE_STATE,))


@dataclass(frozen=True)
class Noised(SameForm):
    """Adds noise to updates, which is in the ledger before training begins.

    All of the site's data is protected, also their number: its weight in means is 1.
    """

    private: PrivateSite

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        if not request.trains:
            return inside(request)
        noise = self.private.noise(request.randomness, request.method.training, request.samples)
        reply = inside(request)
        arrays = self.private.noisy(reply.arrays, request.sent, noise)
        return replace(reply, arrays=arrays, numbers={**reply.numbers, "weight": 1})


@dataclass(frozen=True)
class Released(SameForm):
    """Lets a release of the method change the reply; ``owner`` names its memory."""

    release: Release
    owner: str

    @property
    def name(self) -> str:
        return type(self.release).__name__

    def __call__(self, request: Opened, inside: Inside[Opened]) -> Payload:
        reply = inside(request)
        memory = request.state.memory[self.owner]
        return self.release.leave(reply, Exit(request.sent, memory, request.randomness))

    def form(self, form: Payload, sent: Arrays) -> Payload:
        return self.release.form(form, zero_arrays(sent))


@dataclass(frozen=True)
class Permission:
    """Which numbers may leave: those that all rules permit.

    A kind of number that comes with a rule is in the note about what is missing even if the reply
    has no such number.
    """

    rules: tuple[tuple[Numbers, tuple[str, ...]], ...]

    def __call__(self, reply: Payload) -> Payload:
        for numbers, always in self.rules:
            reply = numbers.permitted(reply, always)
        return reply


@dataclass(frozen=True)
class Summed(SameForm):
    """Lets out what a reply adds to the sums of the run, because the server learns only those.

    Args:
        method: the run's method, with its summation.
        clients: the number of clients of the run.
        permission: which numbers may be in the sums.
        hidden: whether the server sees nothing but sums. Then the weight may be in them whatever
            the permission, and values that do not fit are clipped instead of refused.
    """

    method: AssembledMethod
    summation: FixedPoint
    clients: int
    permission: Permission
    hidden: bool

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        reply = self._permitted(inside(request))
        terms = terms_of(self.method.merging, self.method.extras, reply)
        encoded = self.summation.encode(terms, self.clients, clip=self.hidden)
        return replace(reply, arrays=encoded, extras={})

    def form(self, form: Payload, sent: Arrays) -> Payload:  # noqa: ARG002
        reply = self._permitted(replace(form, numbers=dict.fromkeys(form.numbers, 1.0)))
        arrays = self.summation.form(terms_of(self.method.merging, self.method.extras, reply))
        return with_notes(replace(reply, arrays=arrays, extras={}), WITHHELD)

    def _permitted(self, reply: Payload) -> Payload:
        permitted = self.permission(reply)
        inside_only = ("weight",) if self.hidden else ()
        own = {name: reply.numbers[name] for name in inside_only if name in reply.numbers}
        return replace(permitted, numbers={**own, **permitted.numbers})


@dataclass(frozen=True)
class Questioned(SameForm):
    """Notes for the gate with masks what is asked about which network."""

    def __call__(self, request: Opened, inside: Inside[Opened]) -> Payload:
        trains, evaluates = request.trains, request.round > 1 or not request.trains
        kinds = [*(["training"] if trains else []), *(["scores"] if evaluates else [])]
        network = digest(model_arrays(request.state.model))
        reply = inside(request)
        asked = json.dumps(dict.fromkeys(kinds, network))
        return replace(reply, notes={**reply.notes, QUESTIONS: asked})

    def form(self, form: Payload, sent: Arrays) -> Payload:  # noqa: ARG002
        return with_notes(form, QUESTIONS)
