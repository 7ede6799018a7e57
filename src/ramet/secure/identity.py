"""Who a site is: its long-lived key, and the peers that it accepts."""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.hashes import SHA384
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ramet.errors import RametError
from ramet.secure.key_files import private_key, public_key
from ramet.secure.masks import derived

_ALGORITHM = ec.ECDSA(SHA384())


def fingerprint(public: str) -> str:
    """A fingerprint to compare over another channel, such as by phone."""
    digest = hashlib.sha256(public.strip().encode()).hexdigest()
    return ":".join(digest[start : start + 4] for start in range(0, 32, 4))


@dataclass(frozen=True)
class Identity:
    """A site's long-lived P-384 key."""

    key: ec.EllipticCurvePrivateKey

    @staticmethod
    def read(path: Path) -> Identity:
        return Identity(private_key(path))

    @staticmethod
    @lru_cache(maxsize=256)
    def simulated(seed: int, site: str) -> Identity:
        """A key drawn from the run's seed, which everybody knows."""
        number = int.from_bytes(derived(str(seed).encode(), "simulated identity", site))
        return Identity(ec.derive_private_key(number, ec.SECP384R1()))

    @property
    def public(self) -> str:
        public = self.key.public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
        return public.decode()

    def sign(self, statement: bytes) -> bytes:
        return self.key.sign(statement, _ALGORITHM)


def is_signed(statement: bytes, signature: bytes, public: str) -> bool:
    """Whether the holder of this public key has signed the statement."""
    try:
        key = public_key(public.encode(), "the key")
        key.verify(signature, statement, _ALGORITHM)
    except (InvalidSignature, RametError, ValueError):
        return False
    return True


@dataclass(frozen=True)
class Peers:
    """The fingerprints of the sites that a site accepts in its sums, by name."""

    fingerprints: Mapping[str, str]

    @staticmethod
    def read(path: Path) -> Peers:
        try:
            given = tomllib.loads(path.read_text())
        except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
            raise RametError(
                "the site's list of members cannot be read, so it takes part in no secure sum. Add "
                "them with `ramet deploy member`."
            ) from error
        return Peers({name: str(value) for name, value in given.items()})

    def accepts(self, site: str, public: str) -> bool:
        return self.fingerprints.get(site) == fingerprint(public)


@lru_cache(maxsize=4)
def simulated_peers(seed: int, sites: tuple[str, ...]) -> Peers:
    """All sites of a simulation, with the keys that follow from the seed."""
    return Peers({site: fingerprint(Identity.simulated(seed, site).public) for site in sites})
