"""Who a reply is from: a node signs what it sends, the coordinator checks before it merges.

Flower does not bind a reply to the key of the node that sent it. So each request carries a nonce,
and the node signs it together with the run, its own name, the round and a digest of all that it
replies, by its ECDSA P-384 key: the one that it shows to the SuperLink, in OpenSSH's form. The
coordinator has a folder with one public key per client, ``NAME.pub``.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import load_ssh_private_key, load_ssh_public_key

from ramet.errors import RametError
from ramet.payload import Payload, digest

NONCE, SIGNATURE = "nonce", "signature"
INTRODUCTION = 0
"""The round of the reply in which a node says which client it is."""
_HOW = ec.ECDSA(SHA384())
_NAME = re.compile(r"[\w.+-]+")


@dataclass(frozen=True)
class Occasion:
    """What a reply answers; the nonce is never used twice."""

    run: str
    client: str
    round: int
    nonce: str

    def statement(self, reply: Payload) -> bytes:
        """What is signed: the occasion and everything in the reply but the signature."""
        notes = {name: note for name, note in reply.notes.items() if name != SIGNATURE}
        content = [digest(reply.arrays), sorted(reply.numbers.items()), sorted(notes.items())]
        sealed = hashlib.sha384(json.dumps(content).encode()).hexdigest()
        about = [self.run, self.client, self.round, self.nonce]
        return json.dumps(["a reply in Ramet", about, sealed]).encode()


def fresh_nonce() -> str:
    return secrets.token_hex(32)


def signed(reply: Payload, occasion: Occasion, key_file: Path) -> Payload:
    """The reply with a note that proves who sent it."""
    signature = _private_key(key_file).sign(occasion.statement(reply), _HOW).hex()
    return Payload(reply.arrays, reply.numbers, {**reply.notes, SIGNATURE: signature})


@dataclass(frozen=True)
class Keyring:
    """The clients' public keys, read when they are needed: a key that is taken away is gone."""

    folder: Path

    def __post_init__(self) -> None:
        if not any(self.folder.glob("*.pub")):
            raise RametError(f"{self.folder} holds no public key. Put NAME.pub there per client.")

    def fault(self, reply: Payload, occasion: Occasion) -> str | None:
        """Why this reply does not count as the client's, or None."""
        path = self.folder / f"{occasion.client}.pub"
        if not _NAME.fullmatch(occasion.client) or not path.is_file():
            return "has no registered key"
        if SIGNATURE not in reply.notes:
            return "is not signed"
        try:
            key = _public_key(path.read_bytes(), path)
        except RametError as error:
            return f"cannot be checked: {error}"
        try:
            signature = bytes.fromhex(reply.notes[SIGNATURE])
            key.verify(signature, occasion.statement(reply), _HOW)
        except (InvalidSignature, ValueError):
            return "is not signed by this client's key for this request"
        return None


@lru_cache(maxsize=4)
def _private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_ssh_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise RametError(f"{path} holds no private key ({error}).") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP384R1):
        raise _other_curve(path)
    return key


@lru_cache(maxsize=256)
def _public_key(content: bytes, path: Path) -> ec.EllipticCurvePublicKey:
    try:
        key = load_ssh_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise RametError(f"{path} holds no public key ({error}).") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise _other_curve(path)
    return key


def _other_curve(path: Path) -> RametError:
    return RametError(f"{path} is no key on the curve P-384. Make one: ssh-keygen -t ecdsa -b 384.")
