"""A site's side: its key, a SuperNode that connects to the coordinator, and a SuperExec."""

from __future__ import annotations

import os
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import chdir
from dataclasses import dataclass, replace
from pathlib import Path

import tomli_w
from filelock import FileLock

from ramet.deploy import keys
from ramet.deploy.alive import HEARTBEAT, describe, is_recent, last_heartbeat
from ramet.deploy.authority import CERTIFICATES, check_trusted
from ramet.deploy.consortium import (
    OWN,
    Application,
    Invitation,
    Membership,
    Port,
    read,
    site_options,
    write,
)
from ramet.deploy.party import Party, Say, check_path, make_private_folder, private_files
from ramet.deploy.probes import Check, check_connection, check_port
from ramet.deploy.services import Service, exporter, superexec
from ramet.disk import all_or_nothing, write_atomically
from ramet.errors import RametError, unknown
from ramet.flower.guard import (
    CERTIFICATE_VARIABLE,
    EVENTS_VARIABLE,
    HEARTBEAT_VARIABLE,
    LIST_VARIABLE,
    app_hash,
    write_guard,
)
from ramet.flower.programs import node_config_text
from ramet.flower.terms import AUTHORITY as NODE_AUTHORITY
from ramet.flower.terms import MEMBERS as NODE_MEMBERS
from ramet.flower.terms import POLICY as NODE_POLICY
from ramet.flower.terms import SETTINGS as NODE_SETTINGS
from ramet.flower.terms import Allow, SiteTerms
from ramet.flower.thin_app import thin_app
from ramet.policy import Policy, first_policy, read_policy
from ramet.secure.key_files import public_key

SETTINGS, NODE_KEY, CLIENT_CERTIFICATE = "site.toml", "node.key", "client.pem"
STATE = "state"
"""The folder of the site's private state and its ledger."""
MEMBERS = "members.toml"
"""The file with the fingerprints of the sites that this site accepts in secure sums."""
POLICY = "policy.toml"
"""The file with what may leave the site, which only its owner edits."""
GUARD = "guard"
"""The folder with the list of accepted apps and the programs that enforce it."""
_JOIN_TIMEOUT = 150.0
_UNREACHABLE_RETRY = 5.0


class SiteSettings(Membership):
    """The settings of one site."""

    data: Path
    """A folder of datasets or, for the site's own graphs, the TOML that describes them."""
    runtime_port: Port
    metrics_port: Port | None = None
    allow: Allow = Allow()
    """The owner's changes to what the invitation said."""

    @property
    def run_options(self) -> dict[str, str]:
        return {**self.options, **site_options(self.setting, [self.site])}

    @property
    def terms(self) -> SiteTerms:
        """What runs may do at this site."""
        return SiteTerms.model_validate(self.model_dump())


@dataclass(frozen=True)
class Site(Party):
    """A SuperNode that listens on loopback only and connects only to its coordinator."""

    settings: SiteSettings

    @staticmethod
    def open(folder: Path) -> Site:
        return Site(folder, read(folder / SETTINGS, SiteSettings))

    @property
    def member(self) -> str:
        return f"{self.settings.consortium}-{self.settings.site}"

    @property
    def authority(self) -> Path:
        return self.folder / CERTIFICATES

    @property
    def policy(self) -> Policy:
        """What may leave the site."""
        return read_policy(self.folder / POLICY)

    @property
    def accepted(self) -> Path:
        """The list of accepted apps."""
        return self.folder / GUARD / "accepted.txt"

    @property
    def rotates_events(self) -> bool:
        return True

    def volumes(self) -> Sequence[Path]:
        data = self.settings.data
        return (data.parent if self.settings.setting == OWN else data,)

    def services(self) -> Sequence[Service]:
        runtime = f"127.0.0.1:{self.settings.runtime_port}"
        return (
            Service(
                self.folder,
                "supernode",
                "Flower's SuperNode, which calls the coordinator",
                (
                    *("flower-supernode", "--isolation", "process"),
                    *("--superlink", self.settings.endpoint),
                    *("--root-certificates", self.authority.name),
                    *("--auth-supernode-private-key", NODE_KEY),
                    *("--host", "127.0.0.1", "--port", str(self.settings.runtime_port)),
                    *("--superexec-auth-secret-file", "superexec.secret"),
                    *("--node-config", node_config_text(node_config(self.settings))),
                ),
                listens=("127.0.0.1", self.settings.runtime_port),
                bin_folder=GUARD,
                paths={HEARTBEAT_VARIABLE: HEARTBEAT, CERTIFICATE_VARIABLE: CLIENT_CERTIFICATE},
                networked=True,
                health_command=("python3", "-m", "ramet.deploy.alive", str(self.folder)),
            ),
            replace(superexec(self.folder, runtime, ("--insecure",)), bin_folder=GUARD),
            *exporter(self.folder, self.settings.metrics_port),
        )

    def answer(self, messages: Path) -> Iterator[str]:
        """Answer the requests of the coordinator that are in a folder, and yield what was done."""
        from ramet.flower.client_app import app
        from ramet.flower.file_drop import answer_files

        if not messages.is_dir():
            raise RametError(f"{messages} is no folder. It is the one that the coordinator fills.")
        os.environ[LIST_VARIABLE] = str(self.accepted)
        os.environ[EVENTS_VARIABLE] = str(self.events)
        lock = FileLock(self.folder / ".answer.lock")
        with lock, chdir(self.folder):  # node configs have paths within it
            yield from answer_files(app, messages.absolute(), node_config(self.settings))

    @property
    def last_heartbeat(self) -> float | None:
        """When the coordinator last accepted this site's heartbeat, as Unix time."""
        return last_heartbeat(self.folder)

    def start(self, say: Say) -> None:
        """Start the services; the SuperNode counts as running once a heartbeat was accepted."""
        node, *others = self.services()
        if node.process() and is_recent(self.last_heartbeat):
            say(f"{node.name}: already running, {describe(self.last_heartbeat)}")
        else:
            self._connect(node, say)
        for service in others:
            say(f"{service.name}: {'started' if service.start() else 'already running'}")

    def _connect(self, node: Service, say: Say) -> None:
        """Start the SuperNode and wait for a heartbeat; a killed one is refused for a minute."""
        end = time.monotonic() + _JOIN_TIMEOUT
        if node.process() is None:
            node.kill_orphans()
            check_port(node, "127.0.0.1", self.settings.runtime_port, "--runtime-port").require_ok()
        self._await_coordinator(end, say)
        before = time.time()
        started = node.start()
        state = "started" if started else "running, no heartbeat accepted yet; waiting for one"
        say(f"{node.name}: {state}")
        if not self._wait_for_heartbeat(node, before, end, say):
            if started:
                node.stop()
            raise RametError(
                "the coordinator answers, but did not accept this site within "
                f"{_JOIN_TIMEOUT:.0f} s: it is not admitted. Ask the coordinator to run "
                f"`ramet deploy admit`; see {node.log}."
            )
        say(f"{node.name}: accepted by the coordinator")

    def _wait_for_heartbeat(self, node: Service, before: float, end: float, say: Say) -> bool:
        """Wait until the coordinator accepts the site; False if it does not until `end`."""
        refused = False
        while (self.last_heartbeat or 0.0) < before:
            if time.monotonic() > end:
                return False
            if not refused and node.process() is None:
                refused = True
                say(
                    f"{node.name}: refused by the coordinator, because this site is not admitted "
                    f"or was killed recently; retrying for up to {_JOIN_TIMEOUT:.0f} s"
                )
            time.sleep(0.2)
        return True

    def _await_coordinator(self, end: float, say: Say) -> None:
        """Wait for a coordinator that may be starting; fail at once if waiting cannot help."""
        said = ""
        while not (check := self._check_coordinator()).ok:
            if not check.transient or time.monotonic() > end:
                check.require_ok()
            if check.sentence != said:
                said = check.sentence
                say(f"{said} Retrying for up to {_JOIN_TIMEOUT:.0f} s.")
            time.sleep(_UNREACHABLE_RETRY)

    def _check_coordinator(self) -> Check:
        """The first check of the connection that fails; the first of all if none does."""
        first, *others = self.check_connection()
        return next((check for check in others if not check.ok), first)

    def check_connection(self) -> Iterator[Check]:
        settings, certificate = self.settings, self.folder / CLIENT_CERTIFICATE
        return check_connection(settings.address, settings.port, self.authority, certificate)


def node_config(settings: SiteSettings) -> dict[str, str]:
    """The SuperNode's config for the client app, which the coordinator cannot change."""
    return {
        "client": settings.site,
        "data": str(settings.data),
        "state": STATE,
        "key": NODE_KEY,
        NODE_AUTHORITY: CERTIFICATES,
        NODE_SETTINGS: SETTINGS,
        NODE_POLICY: POLICY,
        NODE_MEMBERS: MEMBERS,
    }


@private_files()
def join(
    invitation: Path,
    data: Path,
    folder: Path | None,
    runtime_port: int,
    say: Say,
    metrics_port: int | None = None,
    trust_new_authority: bool = False,
) -> tuple[Site, Path]:
    """Set up the site's folder and key; also return the application for the coordinator."""
    given = read(invitation, Invitation)
    _check_data(data, given, invitation)
    where = (folder or Path(f"{given.consortium}-{given.site}")).absolute()
    site = Site(
        where,
        SiteSettings(
            **given.model_dump(exclude={"authority"}),
            data=data.absolute(),
            runtime_port=runtime_port,
            metrics_port=metrics_port,
            allow=_owners_changes(where / SETTINGS),
        ),
    )
    check_trusted(site.authority, given.authority, trust_new_authority, invitation)
    make_private_folder(where)
    for part in ("logs", "flower", "state", GUARD):
        (where / part).mkdir(exist_ok=True)
    with all_or_nothing():
        key_is_new = keys.ensure_signing_key(where / NODE_KEY)
        application = _write_setup(site, given)
    say(f"node.key: {'created' if key_is_new else 'exists, kept'}")
    for line in _summary(site, given):
        say(line)
    return site, application


def _check_data(data: Path, given: Invitation, invitation: Path) -> None:
    """Check that the path can be that of the invited site's data."""
    from ramet.data.own.site import site_name

    check_path(data.absolute())
    if given.setting != OWN:
        return
    if data.suffix != ".toml":
        raise RametError(
            "sites bring their own graphs to this consortium. Give their TOML: --data site.toml."
        )
    if data.exists() and (named := site_name(data)) != given.site:
        raise RametError(
            f"{data} describes the graphs of {named}, but {invitation} invites {given.site}. Give "
            f'the right file, or set site = "{given.site}" in it.'
        )


def _write_setup(site: Site, given: Invitation) -> Path:
    """Write everything but the site's key, and return the application."""
    where, policy = site.folder, site.folder / POLICY
    key, application = where / NODE_KEY, where / f"{given.site}.application.toml"
    write_guard(where / GUARD, [app_hash(thin_app())], site.events)
    keys.ensure_secret(where / "superexec.secret")
    write_atomically(site.authority, given.authority)
    write(where / SETTINGS, site.settings)
    site.write_scripts()
    public = keys.public_key_of(key)
    certificate = keys.ensure_client_certificate(where / CLIENT_CERTIFICATE, given.site, key)
    write(
        application,
        Application(
            consortium=given.consortium,
            site=given.site,
            public_key=public,
            certificate=certificate,
        ),
    )
    _write_member(where, given.site, public)
    if not policy.exists():
        write_atomically(policy, first_policy(given.dp, given.secure))
    return application


def _summary(site: Site, given: Invitation) -> Iterator[str]:
    """What the site's owner has agreed to, and the fingerprints to compare."""
    policy = site.folder / POLICY
    if given.dp and site.policy.privacy is None:
        yield f"Without [privacy] in {policy}, every run may spend {given.dp} again."
    yield "This site allows runs:"
    yield from site.settings.terms.lines()
    yield f"To change this, edit [allow] in {site.folder / SETTINGS}."
    yield "This site's policy:"
    yield from site.policy.lines()
    yield f"To change this, edit {policy}. Rerunning this command keeps it."
    yield f"authority's fingerprint: {keys.fingerprint(given.authority)}"
    public = keys.public_key_of(site.folder / NODE_KEY)
    yield f"site key's fingerprint: {keys.fingerprint(public)}"


def add_member(application: Path, folder: Path) -> str:
    """Accept a site in secure sums by the key in its application, and return the fingerprint."""
    given, site = read(application, Application), Site.open(folder)
    if given.consortium != site.settings.consortium:
        raise RametError(
            f"{application} is for the consortium {given.consortium}, but this is a site of "
            f"{site.settings.consortium}. Ask for the right file."
        )
    public_key(given.public_key.encode(), f"the key of {given.site}")
    return _write_member(folder, given.site, given.public_key)


def _write_member(folder: Path, site: str, public: str) -> str:
    fingerprint = keys.fingerprint(public)
    _write_members(folder, {**_members(folder), site: fingerprint})
    return fingerprint


def remove_member(site: str, folder: Path) -> None:
    """No longer expect a site that has left in secure sums."""
    known, own = _members(folder), Site.open(folder).settings.site
    others = [name for name in known if name != own]
    if site not in others:
        raise unknown("member", site, others)
    _write_members(folder, {name: one for name, one in known.items() if name != site})


def _members(folder: Path) -> dict[str, str]:
    path = folder / MEMBERS
    return tomllib.loads(path.read_text()) if path.exists() else {}


def _write_members(folder: Path, members: Mapping[str, str]) -> None:
    write_atomically(folder / MEMBERS, tomli_w.dumps(members), mode=0o600)


def _owners_changes(settings: Path) -> Allow:
    """The table [allow] of a site that has joined before, or an empty one."""
    return read(settings, SiteSettings).allow if settings.exists() else Allow()
