"""Masks: pseudo-random integers from a key that is used once."""

from __future__ import annotations

import json

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from ramet.payload import Array, Arrays

SEED_BYTES = 16
"""A seed is one block of Shamir's scheme, with as many bits as X25519 has of security."""


def derived(secret: bytes, *context: str | int) -> bytes:
    """A key of 32 bytes for one purpose, from a secret, by HKDF-SHA-256."""
    info = json.dumps(["a secure sum in Ramet", *context]).encode()
    return HKDF(SHA256(), 32, salt=None, info=info).derive(secret)


def pair_key(seed: bytes, *context: str | int) -> X25519PrivateKey:
    """The private key of a site for the masks of one round."""
    return X25519PrivateKey.from_private_bytes(derived(seed, "pair", *context))


def agreed_key(own: X25519PrivateKey, other: bytes, *context: str | int) -> bytes:
    """The key that two sites have in common, for one purpose."""
    return derived(own.exchange(X25519PublicKey.from_public_bytes(other)), *context)


def masked(terms: Arrays, key: bytes, subtract: bool = False) -> dict[str, Array]:
    """Add the mask of a key to integers, or subtract it, modulo 2^32 or 2^64.

    The key's ChaCha20 stream is cut into the arrays in the order of their names. A key must not be
    used for two messages.
    """
    size = sum(array.nbytes for array in terms.values())
    encryptor = Cipher(algorithms.ChaCha20(key, bytes(16)), mode=None).encryptor()
    stream, start, result = encryptor.update(bytes(size)), 0, {}
    for name in sorted(terms):
        array = terms[name]
        words = np.frombuffer(stream, array.dtype.newbyteorder("<"), array.size, start)
        mask = words.astype(array.dtype).reshape(array.shape)
        result[name] = np.asarray(array - mask if subtract else array + mask)
        start += array.nbytes
    return result
