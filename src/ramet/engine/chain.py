"""The chain of a run that its sites verify: one link for each exchange.

A link says from which state an exchange began, who has replied, and the sum of the replies. Each
reply is signed together with the link before and the state, as the site has computed them, so that
the signatures in a link confirm the one before it. What follows from a sum is in no link: the
server and every site compute it with the same rules.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, TypeAlias

from ramet.disk import sync
from ramet.errors import RametError
from ramet.payload import Arrays, Payload, digest, under
from ramet.secure.adverts import is_confirmed
from ramet.secure.charter import Charter, canonical

CHAIN = "chain"
"""The note with the links in a message."""
TOTAL, BEFORE = "chain/total/", "chain/before/"
"""Prefixes of arrays in messages: the sum of the last exchange, and the state before it."""
CLOSING = "closing"
"""The exchange after the last round."""
FILE = "chain.jsonl"
Slices: TypeAlias = Mapping[str, Payload]
"""The part of the server's state that follows from sums: what its merging rules know."""


class ChainError(RametError):
    """What a server has sent does not follow from the run's charter and the rounds so far."""


@dataclass(frozen=True)
class Answer:
    """A reply as its site has signed it."""

    reply: str
    """SHA-256 of the reply as it left the site."""
    tag: str
    """The site's tag of what it adds to the sum, in hexadecimal; empty if nothing is summed."""
    signature: str


@dataclass(frozen=True)
class Link:
    """One exchange.

    Args:
        index: the number of the exchange, from 1.
        round: the round that it belongs to.
        exchange: its name in the round: a stage, training, or closing.
        before: the digest of the link before; of the first one, the identity of the charter.
        state: the digest of the server's state when it began.
        answers: the replies that were counted, by site.
        total: the digest of the sum of these replies.
    """

    index: int
    round: int
    exchange: str
    before: str
    state: str
    answers: Mapping[str, Answer]
    total: str

    @cached_property
    def text(self) -> str:
        return canonical(asdict(self))

    @cached_property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @staticmethod
    def parse(text: str) -> Link:
        try:
            given = json.loads(text)
            answers = {str(s): Answer(**facts) for s, facts in given.pop("answers").items()}
            link = Link(**given, answers=answers)
            is_canonical = link.text == text
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise ChainError(f"not a link of a chain ({type(error).__name__}).") from error
        if not is_canonical:
            raise ChainError("not a link of a chain in its one form.")
        return link


def statement(charter: Charter, link: Link, reply: str, tag: str) -> bytes:
    """What a site signs of a reply to the exchange of a link, which has no replies yet."""
    facts = [link.index, link.round, link.exchange, link.before, link.state, reply, tag]
    return canonical(["a reply in Ramet's chain", charter.identity, *facts]).encode()


def reply_digest(reply: Payload) -> str:
    """SHA-256 of what a reply says, without notes that are about the message."""
    content = [digest(reply.arrays), digest(reply.extras), sorted(reply.numbers.items())]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def slices_digest(slices: Slices) -> str:
    """SHA-256 of the part of the server's state that follows from sums."""
    content = [
        [name, digest(own.arrays), sorted(own.numbers.items()), sorted(own.notes.items())]
        for name, own in sorted(slices.items())
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def link_fault(link: Link, before: Link | None, charter: Charter) -> str | None:
    """Why a link does not follow another one in a charter's chain; None if it does."""
    index, known = (before.index, before.digest) if before else (0, charter.identity)
    if type(link.index) is not int or (link.index, link.before) != (index + 1, known):
        return f"link {link.index} does not follow link {index}"
    round_before = before.round if before else 0
    if type(link.round) is not int or link.round - round_before not in (0, 1) or not link.round:
        return f"link {link.index} is of round {link.round}"
    if link.exchange == CLOSING or not all(map(_has_tag, link.answers.values())):
        return f"link {link.index} has replies that add nothing to its sum"
    if len(link.answers) < charter.quorum:
        return f"link {link.index} has {len(link.answers)} replies, below {charter.quorum}"
    for site, answer in link.answers.items():
        if (fault := answer_fault(link, site, answer, charter)) is not None:
            return fault
    return None


def _has_tag(answer: Answer) -> bool:
    return bool(re.fullmatch(r"[0-9a-f]{32}", answer.tag))


def answer_fault(link: Link, site: str, answer: Answer, charter: Charter) -> str | None:
    """Why a reply is not one of a site to this exchange; None if it is."""
    if site not in charter.sites:
        return f"link {link.index} has a reply of {site}, which has not signed the charter"
    signed = statement(charter, link, answer.reply, answer.tag)
    try:
        signature, key = bytes.fromhex(answer.signature), bytes.fromhex(charter.sites[site].signing)
    except ValueError:
        signature = key = b""
    if not is_confirmed(signed, signature, key):
        return f"{site} has not signed its reply in link {link.index}"
    return None


def links_text(links: Iterable[Link], facts: Any = None) -> str:
    """The note with links, and with what is not in arrays of the state before the last."""
    return json.dumps({"links": [link.text for link in links], "before": facts})


def links_in(message: Payload) -> tuple[list[Link], list[Any] | None]:
    try:
        given = json.loads(message.notes[CHAIN])
        return [Link.parse(text) for text in given["links"]], given["before"]
    except (KeyError, ValueError, TypeError) as error:
        raise ChainError("the message has no links of the run's chain.") from error


def slices_facts(slices: Slices) -> list[Any]:
    return [[name, dict(own.numbers), dict(own.notes)] for name, own in slices.items()]


def slices_of(arrays: Arrays, facts: Iterable[Any]) -> dict[str, Payload]:
    try:
        return {
            str(name): Payload(under(f"{name}/", arrays), dict(numbers), dict(notes))
            for name, numbers, notes in facts
        }
    except (TypeError, ValueError) as error:
        raise ChainError("the message has no state of the server.") from error


def read_links(path: Path) -> list[Link]:
    """The links in a file."""
    if not path.exists():
        return []
    return [Link.parse(line) for line in path.read_text().splitlines()]


def append_links(path: Path, size: int, links: Iterable[Link]) -> int:
    """Add links behind the first ``size`` bytes of a file, and return its new size.

    What is behind them was written by an exchange that a crash has interrupted.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    with path.open("r+b") as file:
        file.truncate(size)
        file.seek(size)
        file.writelines(f"{link.text}\n".encode() for link in links)
        end = file.tell()
    sync(path)
    return end
