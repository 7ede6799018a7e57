"""Tags: how the members of a run check a sum that somebody else has added up.

All sites have a key in common that the coordinator lacks. In each exchange it gives a vector r over
the field of integers modulo 2^127 - 1, and a pad for each site. A site's tag is the product of r
with its term, plus its pad. Tags add up as terms do, so the sum of the tags, less the pads of the
sites that are said to be in it, is the product of r with the true sum. A false sum passes with a
probability of 2^-127 for whoever lacks the key, and the pad hides what a tag says of its term. This
is the homomorphic authenticator of Agrawal and Boneh (2009). A pad must not be used for two terms.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms

from ramet.errors import RametError
from ramet.payload import Array, Arrays
from ramet.secure.masks import derived

PRIME = 2**127 - 1
TAG_BYTES = 16
_LIMBS, _CHUNK = 8, 2**20
"""Products of limbs of 16 bits over so many numbers add up in float64 without rounding."""


def tag_of(terms: Arrays, key: bytes, site: str, *exchange: str | int) -> int:
    """A site's tag of its terms, which are integers, in one exchange."""
    return (_product(terms, key, exchange) + _pad(key, site, exchange)) % PRIME


def is_sum(
    total: Arrays, tags: Iterable[int], key: bytes, sites: Iterable[str], *exchange: str | int
) -> bool:
    """Whether this is the sum of the terms of these sites, which have sent these tags."""
    pads = sum(_pad(key, site, exchange) for site in sites)
    return (sum(tags) - pads - _product(total, key, exchange)) % PRIME == 0


def _pad(key: bytes, site: str, exchange: tuple[str | int, ...]) -> int:
    return int.from_bytes(derived(key, "pad", site, *exchange)) % PRIME


def _product(terms: Arrays, key: bytes, exchange: tuple[str | int, ...]) -> int:
    """The product of the exchange's vector with integers; each array has a stream of its own.

    So an array that only some sites have, or that is missing from the sum, counts as zeros.
    """
    _check_size(terms)
    products = np.zeros((5, _LIMBS), np.int64)
    for name, array in terms.items():
        own = derived(key, "vector", name, *exchange)
        encryptor = Cipher(algorithms.ChaCha20(own, bytes(16)), mode=None).encryptor()
        flat = np.ascontiguousarray(array).reshape(-1)
        for start in range(0, flat.size, _CHUNK):
            part = flat[start : start + _CHUNK].astype(np.int64)
            stream = encryptor.update(bytes(2 * _LIMBS * part.size))
            factors = np.frombuffer(stream, "<u2").reshape(part.size, _LIMBS)
            products += _products(part, factors)
    return _joined(products) % PRIME


def _check_size(terms: Arrays) -> None:
    """Products of limbs over more numbers than these would not fit into 64 bits."""
    if sum(array.size for array in terms.values()) >= 2**31:
        raise RametError("a run with 2,147,483,648 or more parameters cannot be verified.")


def _products(integers: Array, factors: Array) -> Array:
    """The exact products of signed integers of 64 bits with factors, by limbs of 16 bits."""
    negative = (integers < 0).astype(np.float64)
    limbs = integers.astype("<i8").view("<u2").reshape(integers.size, 4).astype(np.float64)
    rows = np.column_stack([limbs, negative])
    products: Array = (rows.T @ factors.astype(np.float64)).astype(np.int64)
    return products


def _joined(products: Array) -> int:
    """The number of which these are the products of limbs."""
    shifts = [1, 2**16, 2**32, 2**48, -(2**64)]  # two's complement
    return sum(
        shifts[row] * (int(value) << (16 * limb)) for (row, limb), value in np.ndenumerate(products)
    )
