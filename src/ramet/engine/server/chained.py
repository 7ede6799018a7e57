"""The chain at the server: a link for each exchange, and what sites need to follow it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from ramet.engine.chain import (
    BEFORE,
    CHAIN,
    CLOSING,
    FILE,
    TOTAL,
    Answer,
    Link,
    Slices,
    answer_fault,
    append_links,
    links_text,
    read_links,
    reply_digest,
    slices_digest,
    slices_facts,
    slices_of,
)
from ramet.engine.secure_messages import ANSWER, STEP, TAG
from ramet.engine.server.collector import Collector
from ramet.engine.server.plan import Plan
from ramet.engine.server.state import RunState
from ramet.engine.server.tally import Tally, difference
from ramet.engine.server.wire import Answer as WireAnswer
from ramet.engine.server.wire import Refused, Wire
from ramet.payload import Array, Arrays, Payload, digest, under
from ramet.rules.activation import Asked
from ramet.rules.fixed_point import prefixed
from ramet.rules.fold import Fold
from ramet.secure.charter import Charter

LINKS, SLICE = FILE, "chain"
"""The file with all links, among the server's snapshots, and the slice of the run's state."""


@dataclass(frozen=True)
class _Kept:
    """What the server keeps of the chain between exchanges."""

    links: int = 0
    """The number of links."""
    size: int = 0
    """Of the file with these links, in bytes."""
    at: Mapping[str, int] = field(default_factory=dict)
    """The last exchange to which each client has replied."""
    total: Arrays = field(default_factory=dict)
    """The sum of the last exchange."""
    before: Slices = field(default_factory=dict)
    """The state before the last exchange."""

    @staticmethod
    def of(state: RunState) -> _Kept:
        own = state[SLICE]
        if "facts" not in own.notes:
            return _Kept()
        facts = json.loads(own.notes["facts"])
        before = slices_of(under(BEFORE, own.arrays), facts["before"])
        total = under(TOTAL, own.arrays)
        return _Kept(facts["links"], facts["size"], facts["at"], total, before)

    def payload(self) -> Payload:
        facts = {
            "links": self.links,
            "size": self.size,
            "at": self.at,
            "before": slices_facts(self.before),
        }
        return Payload(self.arrays(with_before=True), notes={"facts": json.dumps(facts)})

    def arrays(self, with_before: bool) -> dict[str, Array]:
        found = prefixed(TOTAL, self.total)
        for name, own in self.before.items() if with_before else ():
            found |= prefixed(f"{BEFORE}{name}/", own.arrays)
        return found


@dataclass
class ChainWire:
    """Adds to messages what sites need to follow the chain, and checks that replies continue it."""

    inner: Wire
    charter: Charter
    path: Path
    next: Link | None = None
    """The link of this exchange, as far as it is known before any reply."""
    kept: _Kept = field(default_factory=_Kept)
    links: list[Link] = field(default_factory=list)
    steps: set[str] = field(default_factory=set)
    """Clients that were asked for a step between two exchanges."""
    added: Tally = field(default_factory=Tally)
    """How much more was sent in this exchange than the messages that were counted."""

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[WireAnswer]:
        def chained() -> Iterator[tuple[str, Payload]]:
            for client, message in requests:
                is_step = STEP in message.notes
                (self.steps.add if is_step else self.steps.discard)(client)
                yield client, message if is_step else self._with_chain(client, message)

        for client, reply in self.inner.exchange(chained()):
            yield client, self._checked(client, reply)

    def _with_chain(self, client: str, message: Payload) -> Payload:
        """The message with the last sum instead of the model, which sites compute from it."""
        chained = replace(message, arrays={}, extras={})
        if self.links:
            missed = self.links[max(self.kept.at.get(client, 0) - 1, 0) :]
            is_behind = len(missed) > 1
            note = links_text(missed, slices_facts(self.kept.before) if is_behind else None)
            notes, extras = {**message.notes, CHAIN: note}, self.kept.arrays(is_behind)
            chained = replace(chained, notes=notes, extras=extras)
        self.added += difference(client, message, chained)
        return chained

    def _checked(self, client: str, reply: Payload | str) -> Payload | str:
        """The reply, if its site has signed it for this exchange."""
        if isinstance(reply, str) or self.next is None or client in self.steps:
            return reply
        try:
            facts = json.loads(reply.notes[ANSWER])
            state, answer = facts.pop("state"), Answer(**facts)
        except (ValueError, TypeError, KeyError):
            return Refused("has no answer for the run's chain")
        if state != self.next.state or answer.reply != reply_digest(reply):
            return Refused("has signed another reply, or in another state of the run")
        if answer.tag != reply.notes.get(TAG, ""):
            return Refused("has signed another tag")
        fault = answer_fault(self.next, client, answer, self.charter)
        return Refused(fault) if fault else reply


@dataclass(frozen=True)
class Chained:
    """Collects replies as ``inner`` does, over the wire of the chain, and appends a link.

    There is none for the closing exchange, in which nothing is merged.
    """

    inner: Collector
    wire: ChainWire

    def collect(
        self, plan: Plan, state: RunState, asked: Asked, fold: Fold
    ) -> tuple[RunState, Tally]:
        kept, wire = _Kept.of(state), self.wire
        if len(wire.links) != kept.links:  # in a process that has just begun
            wire.links = read_links(wire.path)[: kept.links]
        links = wire.links
        slices = state.from_sums()
        begun = Link(
            index=len(links) + 1,
            round=plan.round,
            exchange=plan.exchange if plan.train else CLOSING,
            before=links[-1].digest if links else wire.charter.identity,
            state=slices_digest(slices),
            answers={},
            total="",
        )
        wire.next, wire.kept, wire.added = begun, kept, Tally()
        after, tally = self.inner.collect(plan, state, asked, fold)
        tally = tally + wire.added
        if not plan.train:
            return after, tally
        total = fold.parts()
        answers = {client: _answer(note) for client, note in sorted(tally.signed.items())}
        link = replace(begun, answers=answers, total=digest(total))
        size = append_links(wire.path, kept.size, [link])
        wire.links.append(link)
        at = {**kept.at, **dict.fromkeys(answers, link.index)}
        own = _Kept(link.index, size, at, total, slices)
        return after.having(SLICE, own.payload()), tally


def _answer(note: str) -> Answer:
    facts: dict[str, Any] = json.loads(note)
    return Answer(facts["reply"], facts["tag"], facts["signature"])
