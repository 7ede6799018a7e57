"""The files of admitted sites at the coordinator: keys, certificates and Flower's node ids."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ramet.deploy import keys
from ramet.deploy.consortium import Application
from ramet.disk import remove_file, write_atomically
from ramet.errors import RametError
from ramet.flower.terms import FILES

NEW_KEY = (
    "The site needs a new key: at the site, move node.key away, rerun `ramet deploy join` with the "
    "same invitation, and send the new application."
)


@dataclass(frozen=True)
class Members:
    """The sites that have been admitted, by name."""

    folder: Path

    def key(self, site: str) -> Path:
        """The file with the site's public key."""
        return self.folder / f"{site}.pub"

    def keys(self) -> dict[str, str]:
        """The public keys of all sites that are admitted."""
        return {path.stem: path.read_text().strip() for path in sorted(self.folder.glob("*.pub"))}

    def certificate(self, site: str) -> Path:
        """The file with the certificate that the site presents to the proxy."""
        return self.folder / f"{site}.pem"

    def node(self, site: str) -> Path:
        """The file with Flower's node id for the site's key."""
        return self.folder / f"{site}.node"

    def exchange_files(self, folders: Mapping[str, Path]) -> None:
        """Note which sites exchange files instead of connecting, and in which folders."""
        for old in self.folder.glob(f"*{FILES}"):
            remove_file(old)
        for site, folder in folders.items():
            write_atomically(self.folder / f"{site}{FILES}", f"{folder.absolute()}\n")

    def exchanges_files(self, site: str) -> bool:
        return (self.folder / f"{site}{FILES}").exists()

    def certificates(self, sites: Iterable[str]) -> list[Path]:
        """The certificates of those of these sites that are admitted."""
        return [file for site in sites if (file := self.certificate(site)).exists()]

    def admit(self, given: Application) -> None:
        """Check and store a site's key and certificate."""
        keys.check_client_certificate(given.certificate, given.site, given.public_key)
        self._check_not_revoked(given.public_key)
        key = self.key(given.site)
        if key.exists() and key.read_text() != given.public_key:
            raise RametError(
                f"{given.site} is admitted with another key. If the site has a new key, run "
                f"`ramet deploy revoke {given.site}` first."
            )
        write_atomically(key, given.public_key)
        write_atomically(self.certificate(given.site), given.certificate)

    def revoke(self, site: str) -> None:
        """Remove a site's key and certificate.

        This is final for the key: Flower does not register a key that it has unregistered.
        """
        key = self.key(site)
        if key.exists():
            before = self._revoked.read_text() if self._revoked.exists() else ""
            write_atomically(self._revoked, f"{before}{key.read_text()} {site}\n")
        for file in (self.certificate(site), key):
            remove_file(file)

    def _check_not_revoked(self, public_key: str) -> None:
        if self._revoked.exists() and public_key in self._revoked.read_text():
            raise RametError(f"this key was revoked, which is final. {NEW_KEY}")

    @property
    def _revoked(self) -> Path:
        """The public keys that were revoked, one per line, with the site's name."""
        return self.folder / "revoked.txt"
