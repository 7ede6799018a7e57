"""Set up the coordinator's folder: keys, certificates, scripts and invitations."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from ramet.deploy import keys
from ramet.deploy.authority import KEY, AuthorityChange, change_authority, check_change
from ramet.deploy.consortium import Consortium, Invitation, read, write
from ramet.deploy.coordinator import (
    PROGRAMS,
    SERVER_KEY,
    SETTINGS,
    SIGNING_CERTIFICATE,
    SIGNING_KEY,
    Coordinator,
)
from ramet.deploy.party import Say, make_private_folder, private_files
from ramet.deploy.proxy import TEMPORARY, nginx_conf
from ramet.disk import all_or_nothing, write_atomically
from ramet.errors import RametError
from ramet.flower.guard import KEY_VARIABLE, write_program
from ramet.flower.terms import AgreedRun


@private_files()
def init(
    settings: Path, folder: Path | None, say: Say, authority_change: AuthorityChange | None = None
) -> Coordinator:
    """Set up the coordinator's folder; a rerun keeps all keys and rewrites the rest."""
    consortium = read(settings, Consortium)
    try:
        consortium.settings(settings.parent)
    except RametError as error:
        raise RametError(f"{settings}: {error}") from error
    where = (folder or Path(consortium.name)).absolute()
    party = Coordinator(where, consortium)
    check_change(where, authority_change)
    make_private_folder(where)
    for part in ("admitted", "invitations", "logs", "flower", "runs", TEMPORARY, PROGRAMS):
        (where / part).mkdir(exist_ok=True)
    before = _invitations(where, consortium.sites)
    with all_or_nothing():
        created = {
            KEY: keys.ensure_key(where / KEY),
            SERVER_KEY: keys.ensure_key(where / SERVER_KEY),
            SIGNING_KEY: keys.ensure_signing_key(where / SIGNING_KEY),
            "superexec.secret": keys.ensure_secret(where / "superexec.secret"),
        }
        authority, key = change_authority(where, consortium.name, created[KEY], authority_change)
        _write_setup(party, authority, key)
    for name, is_new in created.items():
        say(f"{name}: {'created' if is_new else 'exists, kept'}")
    for site, text in _invitations(where, consortium.sites).items():
        changed = f"changed; until {site} joins with it, it allows what the last one said"
        is_changed = before[site] not in ("", text)
        say(f"invitations/{site}.toml: {changed if is_changed else f'for {site}'}")
    say(f"authority's fingerprint: {keys.fingerprint(authority)}")
    return party


def _invitations(folder: Path, sites: Sequence[str]) -> dict[str, str]:
    """What sites are told; empty for new ones."""
    files = {site: folder / "invitations" / f"{site}.toml" for site in sites}
    return {site: file.read_text() if file.exists() else "" for site, file in files.items()}


def _write_setup(party: Coordinator, authority: str, key: Path) -> None:
    """Write everything but keys: settings, certificates, scripts and invitations."""
    consortium, folder = party.consortium, party.folder
    for_server = keys.make_server_certificate(
        consortium.name, consortium.address, folder / SERVER_KEY, key
    )
    for_requests = keys.make_coordinator_certificate(consortium.name, folder / SIGNING_KEY, key)
    write_atomically(folder / "server.pem", for_server)
    write_atomically(folder / SIGNING_CERTIFICATE, for_requests)
    write_program(
        folder / PROGRAMS / "flower-superexec",
        "ramet.flower.warm",
        {KEY_VARIABLE: folder / SIGNING_KEY},
    )
    write_atomically(folder / "nginx.conf", nginx_conf(consortium))
    party.write_clients(party.certificates(), authority)
    party.members.exchange_files(consortium.by_files)
    write(folder / SETTINGS, consortium)
    party.write_scripts()
    for site in consortium.sites:
        write(folder / "invitations" / f"{site}.toml", _invitation(consortium, site, authority))


def _invitation(consortium: Consortium, site: str, authority: str) -> Invitation:
    return Invitation(
        consortium=consortium.name,
        site=site,
        address=consortium.address,
        port=consortium.port,
        authority=authority,
        **consortium.model_dump(include={*AgreedRun.model_fields}),
    )
