"""Ids as points of a group, blinded by a secret: equal after two secrets, in whichever order.

The group is the one of prime order on Curve25519, from libsodium. An id is hashed to a point whose
logarithm nobody knows: SHA-512, and the sum of Elligator's points for its two halves. Multiplied by
a site's secret, points tell nobody without it more than how many they are, if the decisional
Diffie-Hellman problem is hard there.
"""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterable

from ramet.errors import RametError

try:
    from nacl import bindings as sodium
    from nacl.exceptions import CryptoError
except ModuleNotFoundError as missing:
    raise RametError("links need PyNaCl. Install it: pip install 'ramet[secure]'") from missing

POINT_BYTES: int = sodium.crypto_core_ed25519_BYTES


def new_secret() -> bytes:
    """A scalar, uniform modulo the group's order."""
    return sodium.crypto_core_ed25519_scalar_reduce(secrets.token_bytes(64))


def point_of(name: str, exchange: str) -> bytes:
    """The point of an id, another one in each exchange."""
    digest = hashlib.sha512(f"an id in a link of Ramet\0{exchange}\0{name}".encode()).digest()
    halves = digest[:32], digest[32:]
    return sodium.crypto_core_ed25519_add(*map(sodium.crypto_core_ed25519_from_uniform, halves))


def blinded(points: Iterable[bytes], secret: bytes) -> list[bytes]:
    """The points times a secret; raise RametError if one is not a point of the group."""
    try:
        return [sodium.crypto_scalarmult_ed25519_noclamp(secret, point) for point in points]
    except CryptoError as error:
        raise RametError("the list has values that are not points of the group.") from error


def separated(given: bytes) -> list[bytes]:
    """Points from their bytes, each of which must be there once."""
    starts = range(0, len(given), POINT_BYTES)
    points = [given[start : start + POINT_BYTES] for start in starts]
    if len(given) % POINT_BYTES or len({*points}) < len(points):
        raise RametError("the list is not one of different points.")
    return points
