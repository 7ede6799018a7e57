"""The consortium's authority, and its replacement with an overlap in which sites trust both."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from ramet.deploy import keys
from ramet.disk import remove_file, write_atomically
from ramet.errors import RametError

KEY, NEXT_KEY, CERTIFICATES = "authority.key", "authority-next.key", "authority.pem"


class AuthorityChange(StrEnum):
    """A step of the replacement of the authority."""

    NEW = "new"
    """Create a new authority; the old one goes on signing, and sites that rejoin trust both."""
    SWITCH = "switch"
    """Sign with the new authority, and invite sites to trust only this one."""


def check_change(folder: Path, change: AuthorityChange | None) -> None:
    """Refuse a step for which it is too early or too late."""
    trusted = folder / CERTIFICATES
    known = keys.split_certificates(trusted.read_text()) if trusted.exists() else []
    if change is AuthorityChange.NEW and not known:
        raise RametError("there is no authority yet. Run `ramet deploy init` without --authority.")
    if change is AuthorityChange.NEW and len(known) > 1:
        raise RametError(
            "a new authority exists already. When all sites have joined with it, run `ramet deploy "
            "init` with --authority switch."
        )
    if change is AuthorityChange.SWITCH and len(known) < 2:
        raise RametError(
            "there is no new authority to switch to. Run `ramet deploy init` with --authority new "
            "first."
        )


def change_authority(
    folder: Path, name: str, key_is_new: bool, change: AuthorityChange | None
) -> tuple[str, Path]:
    """Write what sites trust after the change, if any; return it, and the key that signs."""
    key, next_key, trusted = folder / KEY, folder / NEXT_KEY, folder / CERTIFICATES
    if change is AuthorityChange.NEW:
        # Without its certificate, a key that exists is of a command that was interrupted.
        keys.ensure_key(next_key)
        certificates = trusted.read_text() + keys.make_authority(name, next_key)
    elif change is AuthorityChange.SWITCH:
        certificates = keys.split_certificates(trusted.read_text())[-1]
        if next_key.exists():
            write_atomically(key, next_key.read_bytes(), mode=0o600)
            remove_file(next_key)
            key = next_key
    elif key_is_new or not trusted.exists():
        certificates = keys.make_authority(name, key)
    else:
        return trusted.read_text(), key
    write_atomically(trusted, certificates)
    return certificates, key


def check_trusted(trusted: Path, given: str, accept_new: bool, invitation: Path) -> None:
    """Refuse an invitation with an authority that this site does not trust yet."""
    known = keys.split_certificates(trusted.read_text()) if trusted.exists() else []
    if known and not accept_new and not set(keys.split_certificates(given)) <= set(known):
        raise RametError(
            f"{invitation} has a new authority, which {trusted.parent} does not trust. Compare its "
            f"fingerprint, {keys.fingerprint(given)}, with the coordinator over the telephone; if "
            "it is the same, rerun with --trust-new-authority."
        )
