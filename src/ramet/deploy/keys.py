"""Keys and certificates. Private keys are created where they are used, and never overwritten."""

from __future__ import annotations

import ipaddress
import secrets
from datetime import UTC, datetime, timedelta
from pathlib import Path

from cryptography import x509
from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
    load_pem_private_key,
)
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

from ramet.disk import create_private_file, write_atomically
from ramet.errors import RametError
from ramet.flower.terms import COORDINATOR
from ramet.secure.identity import fingerprint as fingerprint
from ramet.secure.key_files import private_key, public_key

_AUTHORITY_VALIDITY = timedelta(days=3650)
_SERVER_VALIDITY = timedelta(days=397)
_CLIENT_VALIDITY = timedelta(days=3650)
_CLOCK_SKEW = timedelta(minutes=5)
LOOPBACK_NAME = "localhost"
RENEW_CLIENT = (
    "At the site, move client.pem away, rerun `ramet deploy join`, and send the application to the "
    "coordinator again."
)


def ensure_secret(path: Path) -> bool:
    """Create a random secret unless the file exists; True if it was created."""
    return create_private_file(path, lambda: secrets.token_hex(32).encode())


def ensure_key(path: Path) -> bool:
    """Create a P-384 key for certificates unless the file exists; True if it was created."""
    return create_private_file(path, lambda: _new_private_key(PrivateFormat.PKCS8))


def ensure_signing_key(path: Path) -> bool:
    """Create a P-384 key for messages unless the file exists; True if it was created."""
    return create_private_file(path, lambda: _new_private_key(PrivateFormat.OpenSSH))


def public_key_of(node_key: Path) -> str:
    public = private_key(node_key).public_key()
    return public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def ensure_client_certificate(path: Path, site: str, node_key: Path) -> str:
    """The site's certificate for TLS, as PEM; created unless the file has one for this key.

    The file also holds the key, in the format that TLS libraries read.
    """
    key = private_key(node_key)
    if path.exists() and _is_for(path.read_text(), key.public_key()):
        return _pem(x509.load_pem_x509_certificate(path.read_bytes()))
    certificate = _make_client_certificate(site, key)
    private = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    write_atomically(path, certificate.encode() + private, mode=0o600)
    return certificate


def check_client_certificate(text: str, site: str, public: str) -> None:
    """Check that this is one certificate, signed by this key for itself, that only names `site`."""
    key = public_key(public.encode(), f"the key of {site}")
    try:
        (certificate,) = x509.load_pem_x509_certificates(text.encode())
        certificate.verify_directly_issued_by(certificate)
        constraints = certificate.extensions.get_extension_for_class(x509.BasicConstraints).value
    except (ValueError, TypeError, InvalidSignature, x509.ExtensionNotFound) as error:
        raise RametError("not a site's certificate. Ask the site for its file.") from error
    if constraints.ca or certificate.subject != _common_name(site) or text != _pem(certificate):
        raise RametError(f"the certificate is not one for {site}. Ask the site for its file.")
    if not _is_for(text, key):
        raise RametError("the certificate is for another key. Ask the site for its file.")
    if days_left(text) < 0:
        raise RametError(f"the certificate has expired. {RENEW_CLIENT}")


def make_authority(name: str, key_file: Path) -> str:
    """The consortium's CA certificate, as PEM; its key only signs the server's certificate."""
    key = _load(key_file)
    public = key.public_key()
    builder = (
        _certificate(f"{name} authority", f"{name} authority", public, _AUTHORITY_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .add_extension(x509.SubjectKeyIdentifier.from_public_key(public), critical=False)
        .add_extension(_usage(signs_certificates=True), critical=True)
    )
    return _signed(builder, key)


def make_server_certificate(name: str, address: str, key_file: Path, authority: Path) -> str:
    """A certificate for the proxy at `address` and the SuperLink on loopback, as PEM."""
    public, signer = _load(key_file).public_key(), _load(authority)
    names = [_general_name(host) for host in dict.fromkeys([address, LOOPBACK_NAME, "127.0.0.1"])]
    identifier = x509.AuthorityKeyIdentifier.from_issuer_public_key(signer.public_key())
    builder = (
        _certificate(address, f"{name} authority", public, _SERVER_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(names), critical=False)
        .add_extension(identifier, critical=False)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
    )
    return _signed(builder, signer)


def make_coordinator_certificate(name: str, key_file: Path, authority: Path) -> str:
    """A certificate for the key that signs requests to sites, as PEM."""
    public, signer = private_key(key_file).public_key(), _load(authority)
    builder = (
        _certificate(COORDINATOR, f"{name} authority", public, _SERVER_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
    )
    return _signed(builder, signer)


def _make_client_certificate(site: str, key: ec.EllipticCurvePrivateKey) -> str:
    builder = (
        _certificate(site, site, key.public_key(), _CLIENT_VALIDITY)
        .add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        .add_extension(_usage(signs_certificates=False), critical=True)
        .add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.CLIENT_AUTH]), critical=False)
    )
    return _signed(builder, key)


def split_certificates(text: str) -> list[str]:
    """The certificates in a PEM file, each as PEM."""
    try:
        return [_pem(found) for found in x509.load_pem_x509_certificates(text.encode())]
    except ValueError as error:
        raise RametError(f"not a certificate ({error}). Ask the coordinator again.") from error


def expiry(certificate: str) -> datetime:
    return x509.load_pem_x509_certificate(certificate.encode()).not_valid_after_utc


def days_left(certificate: str) -> int:
    return (expiry(certificate) - datetime.now(UTC)).days


def _new_private_key(kind: PrivateFormat) -> bytes:
    return ec.generate_private_key(ec.SECP384R1()).private_bytes(Encoding.PEM, kind, NoEncryption())


def _is_for(certificate: str, public_key: object) -> bool:
    return x509.load_pem_x509_certificate(certificate.encode()).public_key() == public_key


def _pem(certificate: x509.Certificate) -> str:
    return certificate.public_bytes(Encoding.PEM).decode()


def _load(path: Path) -> ec.EllipticCurvePrivateKey:
    """Read a private key for TLS, in PKCS #8."""
    try:
        key = load_pem_private_key(path.read_bytes(), password=None)
    except (OSError, ValueError, UnsupportedAlgorithm) as error:
        raise RametError(
            f"cannot read the key {path} ({error}). Restore it from a backup."
        ) from error
    if not isinstance(key, ec.EllipticCurvePrivateKey):
        raise RametError(
            f"{path} is not a key that `ramet deploy` created. Restore it from a backup."
        )
    return key


def _general_name(address: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(address))
    except ValueError:
        return x509.DNSName(address)


def _usage(signs_certificates: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs_certificates,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        key_cert_sign=signs_certificates,
        crl_sign=signs_certificates,
        encipher_only=False,
        decipher_only=False,
    )


def _certificate(
    subject: str, issuer: str, public: ec.EllipticCurvePublicKey, validity: timedelta
) -> x509.CertificateBuilder:
    now = datetime.now(UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(_common_name(subject))
        .issuer_name(_common_name(issuer))
        .public_key(public)
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _CLOCK_SKEW)
        .not_valid_after(now + validity)
    )


def _common_name(text: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, text[:64])])


def _signed(builder: x509.CertificateBuilder, key: ec.EllipticCurvePrivateKey) -> str:
    return _pem(builder.sign(key, hashes.SHA384()))
