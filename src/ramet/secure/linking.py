"""Which ids two sites share: private set intersection by blinding twice.

Site A has the ids x and a secret a, site B has y and b. H maps an id to a point of a group.

1. start: A sends a·H(x), shuffled.
2. answer: B sends b·H(y), shuffled, and ab·H(x) in A's order. A computes ab·H(y): where it is among
   ab·H(x), the id is shared.
3. finish: A sends ab·H(y) in B's order, so that B finds the same ids.

The last two bodies are encrypted under a key of both sites, so that whoever passes them on does not
see how many points are equal. See docs/decisions/32-linking.md for what is revealed.
"""

from __future__ import annotations

import base64
import secrets
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from itertools import combinations
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from ramet.errors import RametError
from ramet.secure.blinding import POINT_BYTES, blinded, new_secret, point_of, separated
from ramet.secure.identity import Identity
from ramet.secure.link_messages import Kind, LinkMessage
from ramet.secure.masks import agreed_key

MOST = 1_000_000
"""Of ids of another site. Whoever may test many ids learns more of a list than what is shared."""
_NONCE = bytes(12)  # a key encrypts one body


@dataclass(frozen=True)
class Side:
    """What a site keeps of an exchange between its messages; nothing of it may leave the site.

    Args:
        site: its name.
        peer: the name of the other site.
        exchange: the id of the exchange.
        ids: its own ids, in the order in which it has sent their points.
        secret: by which it multiplies points, in hex.
        channel: its private X25519 key, in hex.
        sent: SHA-256 of its last message.
        doubled: at the site that answers, base64 of the other site's points, blinded twice.
    """

    site: str
    peer: str
    exchange: str
    ids: tuple[str, ...]
    secret: str
    channel: str
    sent: str = ""
    doubled: str = ""

    @staticmethod
    def drawn(site: str, peer: str, ids: Iterable[str], exchange: str) -> Side:
        order = sorted(set(map(spelled, ids)))
        if not order or "" in order:
            raise RametError("the list of ids is empty, or has an empty id. Correct it.")
        if site == peer:
            raise RametError(f"{site} cannot be linked with itself. Name another site.")
        secrets.SystemRandom().shuffle(order)
        secret, channel = new_secret().hex(), secrets.token_hex(32)
        return Side(site, peer, exchange, tuple(order), secret, channel)

    @staticmethod
    def restored(kept: Mapping[str, Any]) -> Side:
        return Side(**{**kept, "ids": tuple(kept["ids"])})

    def kept(self) -> dict[str, Any]:
        return asdict(self)

    @property
    def points(self) -> list[bytes]:
        """Its own ids, blinded once."""
        return self.blind(point_of(name, self.exchange) for name in self.ids)

    def blind(self, points: Iterable[bytes]) -> list[bytes]:
        return blinded(points, bytes.fromhex(self.secret))

    @property
    def _private(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(bytes.fromhex(self.channel))

    def _key(self, kind: Kind, other: str) -> ChaCha20Poly1305:
        try:
            shared = agreed_key(self._private, bytes.fromhex(other), "a link", self.exchange, kind)
        except ValueError as error:
            raise RametError("the message has a key that is none. Ask for a new one.") from error
        return ChaCha20Poly1305(shared)

    def message(
        self, kind: Kind, points: Iterable[bytes], identity: Identity, to: LinkMessage | None = None
    ) -> LinkMessage:
        """A signed message, encrypted if it answers one."""
        content = b"".join(points)
        if to is not None:
            content = self._key(kind, to.channel).encrypt(_NONCE, content, None)
        return LinkMessage(
            kind=kind,
            exchange=self.exchange,
            sender=self.site,
            receiver=self.peer,
            key=identity.public,
            channel=self._private.public_key().public_bytes_raw().hex(),
            follows=to.digest if to is not None else "",
            body=base64.b64encode(content).decode(),
        ).signed(identity)

    def opened(self, given: LinkMessage, kind: Kind) -> bytes:
        """The body of the answer to this side's last message."""
        if (given.kind, given.sender, given.exchange) != (kind, self.peer, self.exchange) or (
            given.follows != self.sent
        ):
            raise RametError(
                f"this {given.kind} of {given.sender} does not follow the last message of "
                f"{self.site}: it is of another exchange, or was read before. Ask for the {kind} "
                "to that message, or start anew."
            )
        try:
            return self._key(kind, given.channel).decrypt(_NONCE, given.content, None)
        except InvalidTag as error:
            raise RametError("the message cannot be decrypted. Start a new exchange.") from error

    def after(self, sent: LinkMessage) -> Side:
        return replace(self, sent=sent.digest)


def spelled(name: str) -> str:
    """An id in the one form in which sites compare it."""
    return unicodedata.normalize("NFC", name.strip())


def start(site: str, peer: str, ids: Iterable[str], identity: Identity) -> tuple[LinkMessage, Side]:
    side = Side.drawn(site, peer, ids, secrets.token_hex(16))
    message = side.message("start", side.points, identity)
    return message, side.after(message)


def answer(
    given: LinkMessage, ids: Iterable[str], identity: Identity, most: int = MOST
) -> tuple[LinkMessage, Side]:
    """Answer a message that has been checked."""
    if given.kind != "start":
        raise RametError(f"this is the {given.kind} of an exchange. Use `ramet link finish`.")
    received = separated(given.content)
    if not 0 < len(received) <= most:
        raise RametError(
            f"{given.sender} asks about {len(received):,} ids, but at most {most:,} are allowed. "
            "Ask why the list is that long; --most allows it."
        )
    side = Side.drawn(given.receiver, given.sender, ids, given.exchange)
    doubled = side.blind(received)
    message = side.message("answer", [*side.points, *doubled], identity, given)
    kept = base64.b64encode(b"".join(doubled)).decode()
    return message, replace(side.after(message), doubled=kept)


def finish(
    side: Side, given: LinkMessage, identity: Identity, most: int = MOST
) -> tuple[LinkMessage, tuple[str, ...]]:
    """The last message, and the ids that the two sites share."""
    content = side.opened(given, "answer")
    size = len(content) - POINT_BYTES * len(side.ids)
    if not 0 < size <= most * POINT_BYTES:
        raise RametError(
            f"the answer of {given.sender} has {size // POINT_BYTES:,} ids of its own, but 1 to "
            f"{most:,} are allowed. --most allows more."
        )
    theirs, mine = separated(content[:size]), separated(content[size:])
    doubled = side.blind(theirs)
    return side.message("finish", doubled, identity, given), _shared(side.ids, mine, doubled)


def close(side: Side, given: LinkMessage) -> tuple[str, ...]:
    """The ids that the two sites share, at the site that has answered."""
    mine = separated(side.opened(given, "finish"))
    if len(mine) != len(side.ids):
        raise RametError(f"{given.sender} has sent another number of points. Start anew.")
    return _shared(side.ids, mine, separated(base64.b64decode(side.doubled)))


def _shared(
    ids: tuple[str, ...], mine: Iterable[bytes], theirs: Iterable[bytes]
) -> tuple[str, ...]:
    others = {*theirs}
    return tuple(sorted(name for name, point in zip(ids, mine, strict=True) if point in others))


def linked(lists: Mapping[str, Iterable[str]], seed: int = 0) -> dict[str, dict[str, list[str]]]:
    """All exchanges between sites of one process: at each site, its shared ids and who shares them.

    An id that all sites have is one that a site shares with each of the others.
    """
    given = {site: [*ids] for site, ids in lists.items()}
    keys = {site: Identity.simulated(seed, site) for site in given}
    tables: dict[str, dict[str, list[str]]] = {site: {} for site in given}
    for one, other in combinations(given, 2):
        first, at_one = start(one, other, given[one], keys[one])
        second, at_other = answer(first, given[other], keys[other])
        third, shared = finish(at_one, second, keys[one])
        for site, peer, names in ((one, other, shared), (other, one, close(at_other, third))):
            for name in names:
                tables[site].setdefault(name, []).append(peer)
    return tables
