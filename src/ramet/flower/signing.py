"""Signed messages: the coordinator signs its requests, and a node its replies.

Flower does not bind a reply to the key of the node that sent it, nor a request to anybody: whoever
has the token of a server app may ask all nodes of its run. So each request carries a nonce, and
both sides sign it together with the run, the client, the round and a digest of the whole message,
with an ECDSA P-384 key in OpenSSH format.

A node signs with the key with which it authenticates to the SuperLink; the coordinator has a folder
with one public key per client, ``NAME.pub``. The coordinator signs with a key of its own, for which
the consortium's authority has issued a certificate. Requests carry the certificate, and sites have
the authority's, so that neither side has to exchange another file.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from enum import StrEnum
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from cryptography.x509.oid import NameOID
from filelock import FileLock

from ramet.disk import sync
from ramet.errors import RametError
from ramet.flower.guard import KEY_VARIABLE, write_errors_kept_local
from ramet.flower.terms import AUTHORITY, COORDINATOR, SETTINGS
from ramet.payload import Payload, digest
from ramet.secure.identity import is_signed
from ramet.secure.key_files import private_key, public_key

NONCE, SIGNATURE, CERTIFICATE = "nonce", "signature", "certificate"
INTRODUCTION = 0
"""The round number of the messages in which a node says which client it is."""
ANSWERED = "nonces.txt"
"""The file in a site's state folder with the nonces of the requests that it has begun to answer."""
_ALGORITHM = ec.ECDSA(SHA384())
_NAME = re.compile(r"[\w.+-]+")
_NONCE_FORM = re.compile(r"[0-9a-f]{64}")


class Kind(StrEnum):
    """What a signature is for; one of a request is none of a reply."""

    REQUEST = "a request in Ramet"
    REPLY = "a reply in Ramet"


@dataclass(frozen=True)
class RequestId:
    """Identifies a request, and the reply to it; the nonce is never used twice."""

    run: str
    client: str
    """The client or, in the question which client a node is, Flower's id of the node."""
    round: float
    nonce: str

    def statement(self, message: Payload, kind: Kind) -> bytes:
        """The bytes to sign: this id and a digest of the message without its signature."""
        notes = {name: note for name, note in message.notes.items() if name != SIGNATURE}
        arrays = [digest(message.arrays), digest(message.extras)]
        content = [*arrays, sorted(message.numbers.items()), sorted(notes.items())]
        content_digest = hashlib.sha384(json.dumps(content).encode()).hexdigest()
        fields = [self.run, self.client, self.round, self.nonce]
        return json.dumps([kind, fields, content_digest]).encode()


def fresh_nonce() -> str:
    return secrets.token_hex(32)


def signed(
    message: Payload, request_id: RequestId, key_file: Path, kind: Kind = Kind.REPLY
) -> Payload:
    """The message with a note that holds its signature."""
    signature = private_key(key_file).sign(request_id.statement(message, kind), _ALGORITHM).hex()
    return replace(message, notes={**message.notes, SIGNATURE: signature})


def _is_signed_by(
    key: ec.EllipticCurvePublicKey, message: Payload, request_id: RequestId, kind: Kind
) -> bool:
    try:
        signature = bytes.fromhex(message.notes[SIGNATURE])
        key.verify(signature, request_id.statement(message, kind), _ALGORITHM)
    except (InvalidSignature, ValueError):
        return False
    return True


@dataclass(frozen=True)
class CoordinatorKey:
    """The coordinator's key for requests, and the certificate that the authority issued for it."""

    key: Path
    certificate: Path

    @staticmethod
    def of_this_process() -> CoordinatorKey | None:
        """The key of the coordinator that started this process; None outside a consortium."""
        path = os.environ.get(KEY_VARIABLE)
        return CoordinatorKey(Path(path), Path(path).with_suffix(".pem")) if path else None

    def signed(self, request: Payload, request_id: RequestId) -> Payload:
        notes = {**request.notes, CERTIFICATE: self.certificate.read_text()}
        return signed(replace(request, notes=notes), request_id, self.key, Kind.REQUEST)


def check_request(request: Payload, receiver: str, node_config: Mapping[str, object]) -> None:
    """Refuse a request that is not the coordinator's, is for another receiver, or came before.

    A node that has joined no consortium answers all requests.
    """
    if SETTINGS not in node_config:
        return
    notes, number = request.notes, request.numbers.get("round", INTRODUCTION)
    request_id = RequestId(notes.get("run", ""), receiver, number, notes.get(NONCE, ""))
    fault = _request_fault(request, request_id, Path(str(node_config[AUTHORITY])))
    if fault is None and not _is_first(request_id.nonce, Path(str(node_config["state"]))):
        fault = "came before"
    if fault:
        raise RametError(f"the site answers only its coordinator, and this request {fault}.")


def _request_fault(request: Payload, request_id: RequestId, authority: Path) -> str | None:
    """Why this is not accepted as a request of the coordinator, or None if it is."""
    if SIGNATURE not in request.notes or not _NONCE_FORM.fullmatch(request_id.nonce):
        return "is not signed"
    try:
        certificate = x509.load_pem_x509_certificate(request.notes.get(CERTIFICATE, "").encode())
        key = certificate.public_key()
    except (ValueError, UnsupportedAlgorithm):
        return "has no certificate"
    if not _is_coordinators(certificate, x509.load_pem_x509_certificates(authority.read_bytes())):
        return "has a certificate that the consortium's authority has not issued for requests"
    if not certificate.not_valid_before_utc <= datetime.now(UTC) <= certificate.not_valid_after_utc:
        return "has a certificate that is not valid at this time; `ramet deploy init` renews it"
    if not (
        isinstance(key, ec.EllipticCurvePublicKey)
        and _is_signed_by(key, request, request_id, Kind.REQUEST)
    ):
        return "is not signed by the coordinator's key for this site and round"
    return None


def is_coordinators(statement: bytes, signature: bytes, certificate: str, authority: Path) -> bool:
    """Whether the coordinator that an authority has named has signed a statement, at any time."""
    try:
        found = x509.load_pem_x509_certificate(certificate.encode())
        trusted = x509.load_pem_x509_certificates(authority.read_bytes())
        public = found.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    except (OSError, ValueError, UnsupportedAlgorithm):
        return False
    return _is_coordinators(found, trusted) and is_signed(statement, signature, public.decode())


def _is_coordinators(certificate: x509.Certificate, trusted: list[x509.Certificate]) -> bool:
    """Whether a trusted authority has issued it for requests, and not for a server."""
    try:
        names = certificate.subject.get_attributes_for_oid(NameOID.COMMON_NAME)
    except ValueError:  # it is parsed as late as here
        return False
    return [name.value for name in names] == [COORDINATOR] and any(
        _has_issued(authority, certificate) for authority in trusted
    )


def _has_issued(authority: x509.Certificate, certificate: x509.Certificate) -> bool:
    try:
        certificate.verify_directly_issued_by(authority)
    except (ValueError, TypeError, InvalidSignature):
        return False
    return True


def _is_first(nonce: str, state: Path) -> bool:
    """Note that a request is answered; False if it was noted before."""
    path = state / ANSWERED
    with write_errors_kept_local("write its state"), FileLock(path.with_suffix(".lock")):
        if path.exists() and nonce in path.read_text().split():
            return False
        with path.open("a") as file:
            file.write(f"{nonce}\n")
        sync(path)
    return True


@dataclass(frozen=True)
class Keyring:
    """The clients' public keys, read for every reply: removing a key takes effect at once."""

    folder: Path

    def __post_init__(self) -> None:
        if not any(self.folder.glob("*.pub")):
            raise RametError(f"{self.folder} has no public keys. Add a NAME.pub for each client.")

    def has(self, client: str) -> bool:
        return bool(_NAME.fullmatch(client)) and self._file(client).is_file()

    def texts(self, clients: Iterable[str]) -> dict[str, str]:
        """The public keys of these clients, which must all be admitted."""
        missing = [client for client in clients if not self.has(client)]
        if missing:
            raise RametError(f"{', '.join(missing)}: not admitted, so no charter can name them.")
        return {client: self._file(client).read_text().strip() for client in clients}

    def fault(self, reply: Payload, request_id: RequestId) -> str | None:
        """Why the reply is not accepted as this client's, or None if it is."""
        if not self.has(request_id.client):
            return "has no registered key"
        if SIGNATURE not in reply.notes:
            return "is not signed"
        path = self._file(request_id.client)
        try:
            key = public_key(path.read_bytes(), str(path))
        except RametError as error:
            return f"cannot be checked: {error}"
        if not _is_signed_by(key, reply, request_id, Kind.REPLY):
            return "is not signed by this client's key for this request"
        return None

    def _file(self, client: str) -> Path:
        return self.folder / f"{client}.pub"
