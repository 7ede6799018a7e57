"""Charters: what a run is, written once and signed by every site before it starts.

A charter has the run's terms, the sites with their long-lived keys, and from each site three new
things: a commitment to its share of the run's seed, a key for what it signs in the run, and a key
for what the sites tell each other. Its SHA-256 is the run's identity. A site that signs it reveals
its share, so that nobody could choose the seed, and sends each other site a secret, so that the
sites have a key in common that the coordinator lacks.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field, fields
from functools import cached_property, lru_cache
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from ramet.errors import RametError
from ramet.secure.identity import Identity, is_signed
from ramet.secure.masks import agreed_key, derived

SECRET_BYTES = 32
"""Of a share of the seed, and of what sites send each other."""
SIMULATED = "simulated"
"""A term that only charters of simulations have."""
_SEED_BYTES = 6


class CharterError(RametError):
    """A charter is not what its sites have signed, or a site does not sign it."""


def canonical(content: Any) -> str:
    """JSON with one spelling for the same content."""
    return json.dumps(content, sort_keys=True, separators=(",", ":"))


@dataclass(frozen=True)
class Member:
    """What a charter says of a site."""

    key: str
    """Its long-lived public key."""
    commitment: str
    """SHA-256 of its share of the seed, with the site's name."""
    channel: str
    """Its public key for the secrets that sites send each other."""
    signing: str
    """Its public key for what it signs in the run."""


@dataclass(frozen=True)
class Charter:
    """The terms of a run, and who has agreed to them.

    Args:
        terms: everything that decides what the run computes.
        quorum: the smallest number of sites whose replies make a round.
        sites: the members, by name.
        nonce: makes the charters of two runs with equal terms different.
    """

    terms: Mapping[str, Any]
    quorum: int
    sites: Mapping[str, Member]
    nonce: str

    @property
    def text(self) -> str:
        return canonical(asdict(self))

    @cached_property
    def identity(self) -> str:
        """The run's name: SHA-256 of the charter."""
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def is_simulated(self) -> bool:
        """Whether all keys follow from the seed, which everybody knows."""
        return SIMULATED in self.terms

    @staticmethod
    def parse(text: str) -> Charter:
        try:
            given = json.loads(text)
            sites = {str(site): Member(**facts) for site, facts in given.pop("sites").items()}
            charter = Charter(**given, sites=sites)
            said = (value for member in sites.values() for value in asdict(member).values())
            is_canonical = (
                charter.text == text
                and isinstance(charter.terms, dict)
                and type(charter.quorum) is int
                and all(isinstance(value, str) for value in said)
            )
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise CharterError(f"not a charter ({type(error).__name__}).") from error
        if not is_canonical or not 1 <= charter.quorum <= len(charter.sites):
            raise CharterError("not a charter in its one form.")
        return charter

    @property
    def statement(self) -> bytes:
        """What each site signs."""
        return canonical(["a charter in Ramet", self.identity]).encode()


@dataclass(frozen=True)
class Pledge:
    """What a site draws for a charter, and keeps."""

    share: bytes
    channel: bytes
    secret: bytes
    signing: bytes

    @staticmethod
    def drawn(draw: Callable[[str], bytes]) -> Pledge:
        """A pledge whose parts are each drawn for a purpose."""
        return Pledge(**{part.name: draw(part.name) for part in fields(Pledge)})

    @property
    def channel_key(self) -> X25519PrivateKey:
        return X25519PrivateKey.from_private_bytes(self.channel)

    @property
    def signing_key(self) -> Ed25519PrivateKey:
        return Ed25519PrivateKey.from_private_bytes(self.signing)

    def member(self, site: str, public: str) -> Member:
        channel = self.channel_key.public_key().public_bytes_raw().hex()
        signing = self.signing_key.public_key().public_bytes_raw().hex()
        return Member(public, commitment(site, self.share), channel, signing)

    def sealed(self, charter: Charter, site: str) -> dict[str, str]:
        """The secret for each other site, which only that site can open."""
        return {
            other: ChaCha20Poly1305(self._key(charter, site, other, member))
            .encrypt(bytes(12), self.secret, charter.statement)
            .hex()
            for other, member in charter.sites.items()
            if other != site
        }

    def opened(self, charter: Charter, site: str, sender: str, content: str) -> bytes:
        """The secret that another site has sent."""
        key = self._key(charter, sender, site, charter.sites[sender])
        try:
            return ChaCha20Poly1305(key).decrypt(
                bytes(12), bytes.fromhex(content), charter.statement
            )
        except (InvalidTag, ValueError) as error:
            raise CharterError(f"what {sender} has sent to {site} was altered.") from error

    def _key(self, charter: Charter, sender: str, receiver: str, other: Member) -> bytes:
        """A key for one message: its charter is signed once."""
        names = "secret", charter.identity, sender, receiver
        return agreed_key(self.channel_key, bytes.fromhex(other.channel), *names)


def _share(text: str) -> bytes:
    """A share in its one spelling; raise ValueError for any other."""
    share = bytes.fromhex(text)
    if len(share) != SECRET_BYTES or share.hex() != text:
        raise ValueError(text)
    return share


def commitment(site: str, share: bytes) -> str:
    return hashlib.sha256(canonical(["a share of a seed", site, share.hex()]).encode()).hexdigest()


@dataclass(frozen=True)
class SignedCharter:
    """A charter with the signatures of all its sites, and their shares of the seed."""

    charter: Charter
    signatures: Mapping[str, str]
    shares: Mapping[str, str]

    @property
    def seed(self) -> int:
        """The run's seed, to which every site has contributed."""
        sites = sorted(self.charter.sites)
        shares = [[site, bytes.fromhex(self.shares[site]).hex()] for site in sites]
        digest = hashlib.sha256(canonical([self.charter.identity, shares]).encode()).digest()
        return int.from_bytes(digest[:_SEED_BYTES])

    def check(self) -> None:
        """Raise CharterError unless every site has signed it and opened its commitment."""
        charter = self.charter
        if not self.signatures.keys() == self.shares.keys() == charter.sites.keys():
            raise CharterError("the signatures and shares are not those of the charter's sites.")
        for site, member in charter.sites.items():
            try:
                signature, share = bytes.fromhex(self.signatures[site]), _share(self.shares[site])
            except (ValueError, TypeError):
                signature = share = b""
            if not is_signed(charter.statement, signature, member.key):
                raise CharterError(f"the charter is not signed by {site}.")
            if commitment(site, share) != member.commitment:
                raise CharterError(f"{site} has not opened its commitment to the seed.")

    def text(self) -> str:
        return canonical(
            {
                "charter": self.charter.text,
                "signatures": dict(self.signatures),
                "shares": dict(self.shares),
            }
        )

    @staticmethod
    def parse(text: str) -> SignedCharter:
        try:
            given = json.loads(text)
            signatures, shares = dict(given["signatures"]), dict(given["shares"])
            return SignedCharter(Charter.parse(given["charter"]), signatures, shares)
        except (ValueError, TypeError, KeyError) as error:
            raise CharterError(f"not a signed charter ({type(error).__name__}).") from error


def common_key(charter: Charter, secrets: Mapping[str, bytes]) -> bytes:
    """The key that all sites have in common, from a secret of each."""
    joined = b"".join(secret for _, secret in sorted(secrets.items()))
    return derived(joined, "common key", charter.identity)


@dataclass(frozen=True)
class ChainMember:
    """A site in a run that its sites verify: the charter, its own name and keys.

    Args:
        charter: what all sites have signed.
        site: the site's name.
        signing: its key for this run, which the charter names.
        key: the key that the sites have in common.
    """

    charter: Charter
    site: str
    signing: Ed25519PrivateKey
    key: bytes = field(repr=False)


@dataclass(frozen=True)
class SimulatedCharter:
    """A charter whose keys follow from the run's seed: equal numbers, without any protection."""

    charter: Charter
    pledges: Mapping[str, Pledge]
    identities: Mapping[str, Identity]

    def member(self, site: str) -> ChainMember:
        secrets = {name: pledge.secret for name, pledge in self.pledges.items()}
        key = common_key(self.charter, secrets)
        return ChainMember(self.charter, site, self.pledges[site].signing_key, key)

    def signed(self) -> SignedCharter:
        statement = self.charter.statement
        signatures = {site: one.sign(statement).hex() for site, one in self.identities.items()}
        shares = {site: pledge.share.hex() for site, pledge in self.pledges.items()}
        return SignedCharter(self.charter, signatures, shares)


@lru_cache(maxsize=4)
def simulated_charter(
    terms: str, quorum: int, seed: int, sites: tuple[str, ...], run: str
) -> SimulatedCharter:
    """The charter of a simulation; ``terms`` are JSON."""
    pledges = {site: _simulated_pledge(seed, site) for site in sites}
    identities = {site: Identity.simulated(seed, site) for site in sites}
    members = {site: pledges[site].member(site, identities[site].public) for site in sites}
    return SimulatedCharter(Charter(json.loads(terms), quorum, members, run), pledges, identities)


def _simulated_pledge(seed: int, site: str) -> Pledge:
    return Pledge.drawn(
        lambda purpose: derived(str(seed).encode(), "simulated charter", purpose, site)
    )
