"""The gates around a client's state: what is answered at all, and what is known of answers."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ramet.engine.messages import PRIVATE_STATE
from ramet.engine.secure_messages import ANSWER, BATCH, QUESTIONS, STEP, SUM, TAG
from ramet.engine.site.answered import Answered
from ramet.engine.site.audit import AuditLog
from ramet.engine.site.gates import (
    Inside,
    R,
    SameForm,
    with_notes,
    with_numbers,
    without_notes,
)
from ramet.engine.site.inner_gates import Permission
from ramet.engine.site.private_site import PrivateSite
from ramet.engine.site.request import Request
from ramet.engine.site.run_answers import Kept, RunAnswers
from ramet.engine.start import new_model
from ramet.errors import RametError
from ramet.metrics import peak_memory
from ramet.models.node_hops import NodeHops
from ramet.payload import Arrays, Payload
from ramet.policy import WITHHELD, Policy
from ramet.randomness import Randomness
from ramet.rules.extras import TRAINING

if TYPE_CHECKING:
    from ramet.engine.site.secure_site import SecureSite  # these need an extra
    from ramet.engine.site.site_chain import SiteChain


@dataclass(frozen=True)
class Unlinked(SameForm):
    """Puts noisy sums in the place of links, before anything is computed with them."""

    private: PrivateSite

    def __call__(self, request: Request, inside: Inside[Request]) -> Payload:
        return inside(self.without_links(request))

    def without_links(self, request: Request) -> Request:
        model = new_model(request.method, request.shape, request.seed)
        if not isinstance(model, NodeHops) or not model.hops:
            raise RametError("--dp unit=link needs --network hops, with at least one hop.")
        randomness = Randomness(request.seed, request.client, 0)
        samples = self.private.without_links(request.samples, model.hops, randomness)
        return replace(request, samples=samples)


@dataclass(frozen=True)
class Masked(SameForm):
    """Lets out sums under masks, of a round that all members have confirmed so far."""

    secure: SecureSite

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        self.secure.check_new(request.message)
        return self.secure.masked(request.message, inside(request))

    def form(self, form: Payload, sent: Arrays) -> Payload:  # noqa: ARG002
        notes = dict.fromkeys((PRIVATE_STATE, TAG, BATCH, QUESTIONS), "")
        return Payload(form.arrays, {}, notes)


@dataclass(frozen=True)
class Once(SameForm):
    """Answers each question once, whatever is inside.

    Args:
        answers: what was answered before.
        kind: what a round has one answer of; by default what the message asks for.
        own: notes that stay here, with the answer.
    """

    answers: RunAnswers
    kind: str | None = None
    own: tuple[str, ...] = ()

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        def answer() -> Kept:
            reply = inside(request)
            kept = {name: reply.notes[name] for name in self.own}
            return without_notes(reply, self.own), kept

        return self.answers.once(request.message, answer, self.kind)

    def form(self, form: Payload, sent: Arrays) -> Payload:  # noqa: ARG002
        return with_notes(without_notes(form, self.own), WITHHELD)


@dataclass(frozen=True)
class Agreed(SameForm):
    """Answers the steps of secure sums, between which replies are masked."""

    secure: SecureSite

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        if STEP in request.message.notes:
            return self.secure.answer(request.message)
        self.secure.check_whole(request.message)
        return inside(request)


def secure_gates(secure: SecureSite) -> tuple[Masked, Once, Agreed]:
    """The gates of secure sums, which belong together."""
    return Masked(secure), Once(secure.answers, SUM, (BATCH, QUESTIONS)), Agreed(secure)


@dataclass(frozen=True)
class Counted(SameForm):
    """Adds the number of bytes that leave."""

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        reply = inside(request)
        return with_numbers(reply, {"up": reply.nbytes})

    def form(self, form: Payload, sent: Arrays) -> Payload:  # noqa: ARG002
        return with_numbers(form, {"up": 0})


@dataclass(frozen=True)
class Measured(SameForm):
    """Adds the memory that was needed, which is a fact about a single client."""

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        return with_numbers(inside(request), {"memory": peak_memory()})

    def form(self, form: Payload, sent: Arrays) -> Payload:  # noqa: ARG002
        return with_numbers(form, {"memory": 0})


@dataclass(frozen=True)
class Permitted(SameForm):
    """Holds the site's policy: about its samples, its totals over all runs, and its numbers.

    A message is counted before its reply is computed, and the bytes before they leave.
    """

    policy: Policy
    permission: Permission
    answered: Answered | None = None

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        self.policy.check_samples(lambda: request.samples.manifest)
        if self.answered is not None:
            self.answered.begin(request.message, self.policy)
        reply = self.permission(inside(request))
        if self.answered is not None:
            self.answered.leave(reply.nbytes, self.policy)
        return reply

    def form(self, form: Payload, sent: Arrays) -> Payload:  # noqa: ARG002
        return with_notes(self.permission(form), WITHHELD)


@dataclass(frozen=True)
class Audited(SameForm):
    """Logs what is about to leave; nothing changes it afterwards."""

    log: AuditLog

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        reply, notes = inside(request), request.message.notes
        self.log.add(request.round, reply, notes.get("stage", notes.get(STEP, "")))
        return reply


@dataclass(frozen=True)
class Tagged(SameForm):
    """Adds the site's tag of what its reply adds to the sum, with which all sites check the sum."""

    chain: SiteChain

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        reply = inside(request)
        if not request.message.numbers["train"]:
            return reply
        tag = self.chain.tag(reply, request.round, request.stage or TRAINING)
        return replace(reply, notes={**reply.notes, TAG: tag})

    def form(self, form: Payload, sent: Arrays) -> Payload:  # noqa: ARG002
        return with_notes(form, TAG)


@dataclass(frozen=True)
class Chained(SameForm):
    """Answers only what follows from the run's chain, and signs the reply with the link before.

    ``has_steps`` says whether the run has secure sums, whose steps are between two exchanges.
    """

    chain: SiteChain
    has_steps: bool

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        if self.has_steps and STEP in request.message.notes:
            return inside(request)
        message, position = self.chain.followed(request.message)
        reply = inside(replace(request, message=message))
        signed = self.chain.signed(reply, position, message)
        return replace(reply, notes={**reply.notes, ANSWER: signed})

    def form(self, form: Payload, sent: Arrays) -> Payload:  # noqa: ARG002
        return with_notes(form, ANSWER)
