"""Adverts: the fresh public keys of a site for the next rounds, signed with its long-lived key.

A site draws two seeds per round: one for its own mask, and one for the key pair from which the
masks that it has in common with each peer are derived. It also draws a key pair for the
encryption of shares and one for signatures, which hold for all rounds of the advert.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, TypeAlias

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from ramet.errors import RametError
from ramet.secure.identity import Identity, Peers, is_signed
from ramet.secure.masks import SEED_BYTES, pair_key

Draw: TypeAlias = Callable[[str, int], bytes]
"""Returns random bytes for a purpose."""


@dataclass(frozen=True)
class Batch:
    """The rounds for which sites have exchanged keys. The id is new for each exchange."""

    run: str
    id: str
    first: int
    last: int

    @property
    def rounds(self) -> range:
        return range(self.first, self.last + 1)

    def statement(self, *facts: Any) -> bytes:
        return json.dumps(["a secure sum in Ramet", asdict(self), *facts]).encode()


@dataclass(frozen=True)
class Secrets:
    """What a site keeps of a batch."""

    channel: bytes
    signing: bytes
    own: Mapping[int, bytes]
    pair: Mapping[int, bytes]

    @staticmethod
    def drawn(batch: Batch, draw: Draw) -> Secrets:
        return Secrets(
            channel=draw("channel", 32),
            signing=draw("signing", 32),
            own={number: draw(f"own mask {number}", SEED_BYTES) for number in batch.rounds},
            pair={number: draw(f"pair masks {number}", SEED_BYTES) for number in batch.rounds},
        )

    @property
    def channel_key(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self.channel)

    @property
    def signing_key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.signing)

    def pair_key(self, batch: Batch, site: str, number: int) -> X25519PrivateKey:
        return pair_key(self.pair[number], batch.id, number, site)

    def to_json(self) -> dict[str, Any]:
        by_round = {
            kind: {str(number): seed.hex() for number, seed in seeds.items()}
            for kind, seeds in (("own", self.own), ("pair", self.pair))
        }
        return {"channel": self.channel.hex(), "signing": self.signing.hex(), **by_round}

    @staticmethod
    def from_json(facts: Mapping[str, Any]) -> Secrets:
        by_round = {
            kind: {int(number): bytes.fromhex(seed) for number, seed in facts[kind].items()}
            for kind in ("own", "pair")
        }
        return Secrets(bytes.fromhex(facts["channel"]), bytes.fromhex(facts["signing"]), **by_round)


@dataclass(frozen=True)
class Advert:
    """A site's public keys for a batch."""

    site: str
    channel: bytes
    signing: bytes
    pair: Mapping[int, bytes]

    @staticmethod
    def of(secrets: Secrets, batch: Batch, site: str) -> Advert:
        return Advert(
            site,
            secrets.channel_key.public_key().public_bytes_raw(),
            secrets.signing_key.public_key().public_bytes_raw(),
            {
                number: secrets.pair_key(batch, site, number).public_key().public_bytes_raw()
                for number in batch.rounds
            },
        )

    def text(self, batch: Batch, identity: Identity) -> str:
        """The signed advert, as it is sent."""
        facts = self._facts()
        signature = identity.sign(batch.statement(facts)).hex()
        return json.dumps({"keys": facts, "public": identity.public, "signature": signature})

    def _facts(self) -> dict[str, Any]:
        pair = "".join(key.hex() for _, key in sorted(self.pair.items()))
        channel, signing = self.channel.hex(), self.signing.hex()
        return {"site": self.site, "channel": channel, "signing": signing, "pair": pair}

    @staticmethod
    def parse(text: str, batch: Batch) -> Advert:
        """Read an advert without checking who signed it, as the server does."""
        try:
            facts = json.loads(text)["keys"]
            pair = bytes.fromhex(facts["pair"])
            keys = [pair[start : start + 32] for start in range(0, len(pair), 32)]
            advert = Advert(
                str(facts["site"]),
                bytes.fromhex(facts["channel"]),
                bytes.fromhex(facts["signing"]),
                dict(zip(batch.rounds, keys, strict=True)),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise RametError(f"not the keys of a site ({type(error).__name__}).") from error
        if any(len(key) != 32 for key in (advert.channel, advert.signing, *keys)):
            raise RametError("not the keys of a site (a key has a wrong length).")
        return advert

    @staticmethod
    def verified(text: str, batch: Batch, site: str, peers: Peers) -> Advert:
        """Read an advert, which the site must have signed for this run and these rounds."""
        advert = Advert.parse(text, batch)
        given = json.loads(text)
        public, signature = str(given.get("public")), str(given.get("signature"))
        if advert.site != site or not peers.accepts(site, public):
            raise RametError(
                f"the keys of {site} are not signed by a key whose fingerprint is in this site's "
                "list of members."
            )
        try:
            is_own = is_signed(batch.statement(given["keys"]), bytes.fromhex(signature), public)
        except ValueError:
            is_own = False
        if not is_own:
            raise RametError(f"the keys of {site} are not signed for this run and these rounds.")
        return advert


def is_confirmed(statement: bytes, signature: bytes, signing: bytes) -> bool:
    """Whether the holder of a batch's signing key has signed the statement."""
    try:
        Ed25519PublicKey.from_public_bytes(signing).verify(signature, statement)
    except (InvalidSignature, ValueError):  # also for a key that is none
        return False
    return True
