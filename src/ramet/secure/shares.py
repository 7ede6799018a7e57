"""Shamir's shares of seeds, and their encryption for one receiver."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from Crypto.Protocol.SecretSharing import Shamir
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from ramet.errors import RametError
from ramet.secure.masks import SEED_BYTES

SMALLEST = 3
"""The smallest number of sites of a secure sum."""
SEALED_BYTES = 2 * SEED_BYTES + 16
"""A share of each of the two seeds, and the authentication tag."""


def threshold(sites: int) -> int:
    """How many sites must answer: more than half, so that no two lists of survivors both can."""
    return max(SMALLEST, sites // 2 + 1)


def holds(sites: int, survivors: int, colluders: int) -> bool:
    """Whether a coordinator with so many colluding sites learns no sum of fewer survivors.

    With s survivors and c colluders, it could show one list to s - c honest sites, which then
    reveal the key of a site that is missing, and another list to as many more as are needed for
    that site's own mask, if the n - c honest sites are enough for both.
    """
    needed = threshold(sites)
    enough = needed <= survivors <= sites and colluders < survivors
    return enough and survivors + needed > sites + colluders


def split(seed: bytes, sites: Sequence[str]) -> dict[str, bytes]:
    """A share of the seed for each site; its place in the sorted list is the share's index."""
    shares = Shamir.split(threshold(len(sites)), len(sites), seed, ssss=False)
    return {site: bytes(share) for site, (_, share) in zip(sorted(sites), shares, strict=True)}


def combined(shares: Mapping[str, bytes], sites: Sequence[str]) -> bytes:
    """The seed, from shares of at least as many sites as the threshold."""
    index = {site: number for number, site in enumerate(sorted(sites), start=1)}
    given = [(index[site], share) for site, share in sorted(shares.items())]
    return bytes(Shamir.combine(given[: threshold(len(sites))], ssss=False))


def sealed(key: bytes, round_number: int, shares: bytes, context: bytes) -> bytes:
    """Encrypt the shares of a round; a key is for one direction, and a round has one message."""
    return ChaCha20Poly1305(key).encrypt(_nonce(round_number), shares, context)


def opened(key: bytes, round_number: int, content: bytes, context: bytes) -> bytes:
    """Decrypt the shares of a round, or raise RametError."""
    try:
        return ChaCha20Poly1305(key).decrypt(_nonce(round_number), content, context)
    except (InvalidTag, ValueError) as error:
        raise RametError(
            "the shares of a site were altered on their way, or were made for other sites."
        ) from error


def _nonce(round_number: int) -> bytes:
    return round_number.to_bytes(12)
