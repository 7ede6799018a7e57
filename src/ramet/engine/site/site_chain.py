"""A site's copy of its run's chain, and its own computation of the server's state.

What a message brings is checked before anything is done with it: the links since the last one, that
the sum in the last link is the sum of the replies in it, and that the model is what follows from
it. A site that was not asked for some rounds takes over the state that a quorum of sites has signed
in the last link, and goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from logging import WARNING
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ramet.disk import write_atomically
from ramet.engine.chain import (
    BEFORE,
    CHAIN,
    CLOSING,
    FILE,
    TOTAL,
    ChainError,
    Link,
    Slices,
    append_links,
    link_fault,
    links_in,
    reply_digest,
    slices_digest,
    slices_facts,
    slices_of,
    statement,
)
from ramet.engine.check import same_form
from ramet.engine.secure_messages import TAG
from ramet.engine.store.checkpoint import Snapshot, Snapshots
from ramet.events import log_event
from ramet.payload import Arrays, Payload, digest, under
from ramet.rules.extras import TRAINING
from ramet.rules.fixed_point import prefixed
from ramet.rules.fold import Fold
from ramet.secure.charter import ChainMember
from ramet.secure.tags import is_sum, tag_of

FOLDER = "chain"
"""The folder with a site's copy of the chain, next to its state in a run."""
_KEPT = 2


class ServerStep(Protocol):
    """Protocol of what the server computes, which a site repeats."""

    def first(self) -> Slices:
        """The state before round 1."""
        ...

    def fold(self, round_number: int, exchange: str) -> Fold:
        """How the replies to an exchange are added up."""
        ...

    def next(self, slices: Slices, link: Link, fold: Fold) -> Slices:
        """The state after an exchange."""
        ...

    def due(self, link: Link | None) -> tuple[int, str]:
        """The round and the exchange that follow a link."""
        ...

    def parts(self, exchange: str) -> Arrays:
        """The parts of a sum, with the names, shapes and types that they can have."""
        ...

    def expected(self, slices: Slices, message: Payload, counted: int) -> Payload:
        """The message that the server sends in this state.

        ``counted`` is the last round in which it has counted this site's reply.
        """
        ...


@dataclass(frozen=True)
class Position:
    """How far a site has followed the chain: its last link, and the state that follows from it."""

    link: Link | None
    slices: Slices
    size: int = 0
    """Of the file with all links up to this one, in bytes."""
    counted: int = 0
    """The last round in which the site's own training was counted."""

    @property
    def index(self) -> int:
        return self.link.index if self.link else 0


@dataclass(frozen=True)
class SiteChain:
    """The chain of one run at one site."""

    member: ChainMember
    step: ServerStep
    folder: Path

    def followed(self, message: Payload) -> tuple[Payload, Position]:
        """The message with the model that follows from the chain, which is checked and kept."""
        position, plain = self.position(), _without_chain(message)
        if plain.tensors:
            raise ChainError(
                "the message has a model, or other arrays that do not follow from the sums of the "
                "rounds before. In this run sites compute them, so this site does not answer."
            )
        if CHAIN in message.notes:
            position = self._follow(message, position)
        elif position.link:
            raise ChainError("the message has no links of the run's chain.")
        self._check_due(plain, position)
        due = self.step.expected(position.slices, plain, position.counted)
        return replace(plain, arrays=due.arrays, extras=due.extras), position

    def tag(self, reply: Payload, round_number: int, exchange: str) -> str:
        """The site's tag of what its reply adds to the sum of an exchange."""
        fold = self.step.fold(round_number, exchange)
        fold.add(self.member.site, reply)
        own = self.member
        return f"{tag_of(fold.integers(), own.key, own.site, round_number, exchange):032x}"

    def signed(self, reply: Payload, position: Position, message: Payload) -> str:
        """What the site signs of a reply to the message that it has followed, as JSON."""
        own, link, index = self.member, position.link, position.index + 1
        before = link.digest if link else own.charter.identity
        state, tag = slices_digest(position.slices), reply.notes.get(TAG, "")
        said, (number, exchange) = reply_digest(reply), _exchange(message)
        begun = Link(index, number, exchange, before, state, {}, "")
        signature = own.signing.sign(statement(own.charter, begun, said, tag))
        self._note_answer(index, said)
        return json.dumps({"state": state, "reply": said, "tag": tag, "signature": signature.hex()})

    def _check_due(self, message: Payload, position: Position) -> None:
        """Refuse to skip or to repeat an exchange; after training, a run may end."""
        number, exchange = self.step.due(position.link)
        ends = position.link is not None and position.link.exchange == TRAINING
        given = _exchange(message)
        if given != (number, exchange) and not (ends and given == (number, CLOSING)):
            raise ChainError(
                f"the message is about {given[1]} in round {given[0]}, but {exchange} in round "
                f"{number} comes next."
            )
        if int(message.numbers["last"]) != position.counted:
            raise ChainError(
                f"the message says that the site's last reply was in round "
                f"{message.numbers['last']:g}, but its links count one in {position.counted}."
            )

    def position(self) -> Position:
        """How far the site has followed the chain."""
        saved = self._snapshots.latest_valid()
        if saved is None:
            return Position(None, self.step.first())
        facts = saved.facts
        slices = slices_of(saved.arrays, facts["slices"])
        return Position(Link.parse(facts["link"]), slices, facts["size"], facts["counted"])

    def _follow(self, message: Payload, position: Position) -> Position:
        given, facts = links_in(message)
        if not given or given[-1].index < position.index:
            raise ChainError("the message goes back in the run's chain.")
        old = [link for link in given if link.index <= position.index]
        if old and old[-1] != position.link:
            raise ChainError("the message has another link than this site was sent before.")
        new = given[len(old) :]
        if not new:
            return position
        for before, link in zip([position.link, *new], new, strict=False):
            self._check_link(before, link)
        slices = position.slices
        if len(new) > 1:
            slices = slices_of(under(BEFORE, message.extras), facts or ())
        if slices_digest(slices) != new[-1].state:
            raise ChainError("the server's state is not what the sites have signed.")
        slices = self._stepped(message, new[-1], slices)
        return self._kept(new, slices, position)

    def _check_link(self, before: Link | None, link: Link) -> None:
        fault = link_fault(link, before, self.member.charter)
        if fault:
            raise ChainError(f"the run's chain is broken: {fault}.")
        due = self.step.due(before)
        if (link.round, link.exchange) != due:
            raise ChainError(
                f"link {link.index} is of {link.exchange} in round {link.round}, but {due[1]} in "
                f"round {due[0]} comes next."
            )
        own = self._answers().get(str(link.index))
        counted = link.answers.get(self.member.site)
        if own is not None and counted is None:
            log_event(WARNING, "reply left out", round=link.round, exchange=link.exchange)

    def _stepped(self, message: Payload, link: Link, slices: Slices) -> Slices:
        """The state after an exchange, if its sum is that of the replies."""
        parts, fold = under(TOTAL, message.extras), self.step.fold(link.round, link.exchange)
        known = self.step.parts(link.exchange)
        has_form = all(n in known and same_form(a, known[n]) for n, a in parts.items())
        if digest(parts) != link.total or not has_form or fold.parts_fault(parts):
            raise ChainError(f"the sum of round {link.round} is not what its link says.")
        fold.add_parts(parts)
        sites, exchange = [*link.answers], (link.round, link.exchange)
        tags = [int(answer.tag, 16) for answer in link.answers.values()]
        if not is_sum(fold.integers(), tags, self.member.key, sites, *exchange):
            raise ChainError(
                f"the sum of round {link.round} is not the sum of the replies of "
                f"{', '.join(sites)}, so this site does not go on."
            )
        following = self.step.next(slices, link, fold)
        for own in following.values():
            for name, array in own.arrays.items():
                if not np.isfinite(array).all():
                    raise ChainError(f"'{name}' is not finite after round {link.round}.")
        return following

    def _kept(self, new: Sequence[Link], slices: Slices, before: Position) -> Position:
        """Keep links, and then the state that follows from them; a crash loses both or neither."""
        size, own = append_links(self.folder / FILE, before.size, new), self.member.site
        mine = [link.round for link in new if link.exchange == TRAINING and own in link.answers]
        position = Position(new[-1], slices, size, max(mine, default=before.counted))
        arrays: dict[str, Any] = {}
        for name, state in slices.items():
            arrays |= prefixed(f"{name}/", state.arrays)
        link, known = new[-1], slices_facts(slices)
        facts = {"slices": known, "link": link.text, "size": size, "counted": position.counted}
        self._snapshots.save(Snapshot(link.index, arrays, facts))
        return position

    def _note_answer(self, index: int, reply: str) -> None:
        self.folder.mkdir(parents=True, exist_ok=True)
        answers = {**self._answers(), str(index): reply}
        latest = dict([*answers.items()][-_KEPT:])
        write_atomically(self.folder / "answers.json", json.dumps(latest))

    def _answers(self) -> Mapping[str, str]:
        """The digests of the site's last replies, by the exchange."""
        path = self.folder / "answers.json"
        answers: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}
        return answers

    @property
    def _snapshots(self) -> Snapshots:
        return Snapshots(self.folder, keep=_KEPT)


def _exchange(message: Payload) -> tuple[int, str]:
    """The round of a message, and what it asks for."""
    training = message.notes.get("stage", TRAINING)
    return int(message.numbers["round"]), training if message.numbers["train"] else CLOSING


def _without_chain(message: Payload) -> Payload:
    notes = {name: note for name, note in message.notes.items() if name != CHAIN}
    extras = {
        name: array
        for name, array in message.extras.items()
        if not name.startswith((TOTAL, BEFORE))
    }
    return replace(message, notes=notes, extras=extras)
