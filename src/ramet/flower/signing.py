"""Signed replies: a node signs what it sends, and the coordinator checks it before it merges.

Flower does not bind a reply to the key of the node that sent it. So each request carries a nonce,
and the node signs it together with the run, its own name, the round and a digest of the whole
reply. It uses the ECDSA P-384 key, in OpenSSH format, with which it authenticates to the SuperLink.
The coordinator has a folder with one public key per client, ``NAME.pub``.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
from dataclasses import dataclass, replace
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
"""The round number of the reply in which a node says which client it is."""
_ALGORITHM = ec.ECDSA(SHA384())
_NAME = re.compile(r"[\w.+-]+")


@dataclass(frozen=True)
class RequestId:
    """Identifies the request that a reply answers; the nonce is never used twice."""

    run: str
    client: str
    round: int
    nonce: str

    def statement(self, reply: Payload) -> bytes:
        """The bytes to sign: this id and a digest of the reply without its signature."""
        notes = {name: note for name, note in reply.notes.items() if name != SIGNATURE}
        arrays = [digest(reply.arrays), digest(reply.extras)]
        content = [*arrays, sorted(reply.numbers.items()), sorted(notes.items())]
        content_digest = hashlib.sha384(json.dumps(content).encode()).hexdigest()
        fields = [self.run, self.client, self.round, self.nonce]
        return json.dumps(["a reply in Ramet", fields, content_digest]).encode()


def fresh_nonce() -> str:
    return secrets.token_hex(32)


def signed(reply: Payload, request_id: RequestId, key_file: Path) -> Payload:
    """The reply with a note that holds its signature."""
    signature = _private_key(key_file).sign(request_id.statement(reply), _ALGORITHM).hex()
    return replace(reply, notes={**reply.notes, SIGNATURE: signature})


@dataclass(frozen=True)
class Keyring:
    """The clients' public keys, read for every reply: removing a key takes effect at once."""

    folder: Path

    def __post_init__(self) -> None:
        if not any(self.folder.glob("*.pub")):
            raise RametError(f"{self.folder} has no public keys. Add a NAME.pub for each client.")

    def has(self, client: str) -> bool:
        return bool(_NAME.fullmatch(client)) and self._file(client).is_file()

    def fault(self, reply: Payload, request_id: RequestId) -> str | None:
        """Why the reply is not accepted as this client's, or None if it is."""
        if not self.has(request_id.client):
            return "has no registered key"
        if SIGNATURE not in reply.notes:
            return "is not signed"
        path = self._file(request_id.client)
        try:
            key = _public_key(path.read_bytes(), path)
        except RametError as error:
            return f"cannot be checked: {error}"
        try:
            signature = bytes.fromhex(reply.notes[SIGNATURE])
            key.verify(signature, request_id.statement(reply), _ALGORITHM)
        except (InvalidSignature, ValueError):
            return "is not signed by this client's key for this request"
        return None

    def _file(self, client: str) -> Path:
        return self.folder / f"{client}.pub"


@lru_cache(maxsize=4)
def _private_key(path: Path) -> ec.EllipticCurvePrivateKey:
    try:
        key = load_ssh_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise RametError(f"{path} is not a private key ({error}).") from error
    if not isinstance(key, ec.EllipticCurvePrivateKey) or not isinstance(key.curve, ec.SECP384R1):
        raise _wrong_curve(path)
    return key


@lru_cache(maxsize=256)
def _public_key(content: bytes, path: Path) -> ec.EllipticCurvePublicKey:
    try:
        key = load_ssh_public_key(content)
    except (ValueError, UnsupportedAlgorithm) as error:
        raise RametError(f"{path} is not a public key ({error}).") from error
    if not isinstance(key, ec.EllipticCurvePublicKey) or not isinstance(key.curve, ec.SECP384R1):
        raise _wrong_curve(path)
    return key


def _wrong_curve(path: Path) -> RametError:
    return RametError(f"{path} is not a P-384 key. Create one with ssh-keygen -t ecdsa -b 384.")
