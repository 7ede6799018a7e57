"""P-384 keys in OpenSSH's format, with which Flower's nodes, messages and statements are signed."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from ramet.errors import RametError

_UNREADABLE = (ValueError, UnsupportedAlgorithm, NotImplementedError)
"""What cryptography raises for a text that is no key: the last one for a compressed point."""


def private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a P-384 key in OpenSSH's format."""
    try:
        key = _parsed(path.read_bytes())
    except (OSError, *_UNREADABLE) as error:
        raise RametError(f"{path} is not a private key ({error}).") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP384R1):
        raise _wrong_curve(str(path))
    return key


@lru_cache(maxsize=4)
def _parsed(content: bytes) -> object:
    return load_ssh_private_key(content, password=None)


@lru_cache(maxsize=256)
def public_key(content: bytes, name: str) -> ec.EllipticCurvePublicKey:
    """Read the public part of a P-384 key in OpenSSH's format."""
    try:
        key = load_ssh_public_key(content)
    except _UNREADABLE as error:
        raise RametError(f"{name} is not a public key ({error}).") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise _wrong_curve(name)
    return key


def _wrong_curve(name: str) -> RametError:
    return RametError(f"{name} is not a P-384 key. Create one with ssh-keygen -t ecdsa -b 384.")
