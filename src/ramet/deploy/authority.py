"""The consortium's authority, and its replacement with an overlap in which sites trust both."""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path

from ramet.deploy import keys
from ramet.errors import RametError

KEY, NEXT_KEY, CERTIFICATES = "authority.key", "authority-next.key", "authority.pem"


class AuthorityChange(StrEnum):
    """A step of the replacement of the authority."""

    NEW = "new"
    """Create a new authority; the old one goes on signing, and sites that rejoin trust both."""
    SWITCH = "switch"
    """Sign with the new authority, and invite sites to trust only this one."""


def change_authority(
    folder: Path, name: str, key_is_new: bool, change: AuthorityChange | None
) -> None:
    """Write the certificates that sites trust, after the change, if any."""
    if change is AuthorityChange.NEW:
        _add(folder, name)
    elif change is AuthorityChange.SWITCH:
        _switch(folder)
    elif key_is_new or not (folder / CERTIFICATES).exists():
        (folder / CERTIFICATES).write_text(keys.make_authority(name, folder / KEY))


def _add(folder: Path, name: str) -> None:
    trusted = folder / CERTIFICATES
    if not trusted.exists():
        raise RametError("there is no authority yet. Run `ramet deploy init` without --authority.")
    if len(keys.split_certificates(trusted.read_text())) > 1:
        raise RametError(
            "a new authority exists already. When all sites have joined with it, run `ramet deploy "
            "init` with --authority switch."
        )
    (folder / NEXT_KEY).unlink(missing_ok=True)  # of a command that was interrupted here
    keys.ensure_key(folder / NEXT_KEY)
    trusted.write_text(trusted.read_text() + keys.make_authority(name, folder / NEXT_KEY))


def _switch(folder: Path) -> None:
    trusted = folder / CERTIFICATES
    if trusted.exists() and (folder / NEXT_KEY).exists():
        (folder / NEXT_KEY).replace(folder / KEY)
    certificates = keys.split_certificates(trusted.read_text()) if trusted.exists() else []
    if len(certificates) < 2:
        raise RametError(
            "there is no new authority to switch to. Run `ramet deploy init` with --authority new "
            "first."
        )
    trusted.write_text(certificates[-1])


def check_trusted(trusted: Path, given: str, accept_new: bool, invitation: Path) -> None:
    """Refuse an invitation with an authority that this site does not trust yet."""
    known = keys.split_certificates(trusted.read_text()) if trusted.exists() else []
    if known and not accept_new and not set(keys.split_certificates(given)) <= set(known):
        raise RametError(
            f"{invitation} has a new authority, which {trusted.parent} does not trust. Compare its "
            f"fingerprint, {keys.fingerprint(given)}, with the coordinator over the telephone; if "
            "it is the same, rerun with --trust-new-authority."
        )
