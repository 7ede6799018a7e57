"""A site's side: its key, a SuperNode that connects to the coordinator, and a SuperExec."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ramet.deploy import keys
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
from ramet.deploy.probes import Finding, check_connection, check_port
from ramet.deploy.services import Service, exporter, superexec
from ramet.deploy.side import Say, Side, make_private_folder
from ramet.errors import RametError
from ramet.flower import THIN_APP
from ramet.flower.guard import app_hash, write_guard

SETTINGS, NODE_KEY = "site.toml", "node.key"
GUARD = "guard"
"""The folder with the list of accepted apps and the programs that enforce it."""
_JOIN_TIMEOUT = 150.0
_REFUSED_RETRY = 15.0
_UNREACHABLE_RETRY = 5.0


class SiteSettings(Membership):
    """The settings of one site."""

    data: Path
    """A folder of datasets or, for the site's own graphs, the TOML that describes them."""
    runtime_port: Port
    metrics_port: Port | None = None

    @property
    def options(self) -> dict[str, str]:
        return site_options(self.setting, [self.site])


@dataclass(frozen=True)
class Site(Side):
    """A SuperNode that listens on loopback only and connects only to its coordinator."""

    settings: SiteSettings

    @staticmethod
    def open(folder: Path) -> Site:
        return Site(folder, read(folder / SETTINGS, SiteSettings))

    @property
    def authority(self) -> Path:
        return self.folder / "authority.pem"

    @property
    def accepted(self) -> Path:
        """The list of accepted apps."""
        return self.folder / GUARD / "accepted.txt"

    def volumes(self) -> Sequence[Path]:
        data = self.settings.data
        return (data.parent if self.settings.setting == OWN else data,)

    def services(self) -> Sequence[Service]:
        runtime = f"127.0.0.1:{self.settings.runtime_port}"
        config = " ".join(f'{key}="{value}"' for key, value in node_config(self.settings).items())
        return (
            Service(
                self.folder,
                "supernode",
                "Flower's SuperNode, which calls the coordinator",
                (
                    *("flower-supernode", "--isolation", "process"),
                    *("--superlink", f"{self.settings.address}:{self.settings.port}"),
                    *("--root-certificates", self.authority.name),
                    *("--auth-supernode-private-key", NODE_KEY),
                    *("--host", "127.0.0.1", "--port", str(self.settings.runtime_port)),
                    *("--superexec-auth-secret-file", "superexec.secret"),
                    *("--node-config", config),
                ),
                listens=("127.0.0.1", self.settings.runtime_port),
            ),
            replace(superexec(self.folder, runtime, ("--insecure",)), bin_folder=GUARD),
            *exporter(self.folder, self.settings.metrics_port),
        )

    def start(self, say: Say) -> None:
        """Start the services; retry, because a killed SuperNode is refused for up to a minute."""
        node, *others = self.services()
        end = time.monotonic() + _JOIN_TIMEOUT
        if node.process() is None:
            node.kill_orphans()
            check_port(node, "127.0.0.1", self.settings.runtime_port, "--runtime-port").require_ok()
            self._await_coordinator(end, say)
        while True:
            before = node.log.stat().st_size if node.log.exists() else 0
            if not node.start():
                say(f"{node.name}: already running")
                break
            say(f"{node.name}: started")
            if self._wait_joined(node, before, end):
                say(f"{node.name}: accepted by the coordinator")
                break
            if time.monotonic() > end:
                node.stop()
                raise RametError(
                    "the coordinator answers, but did not accept this site within "
                    f"{_JOIN_TIMEOUT:.0f} s: it is not admitted. Ask the coordinator to run "
                    f"`ramet deploy admit`; see {node.log}."
                )
            say(
                f"{node.name}: refused by the coordinator, because this site is not admitted or "
                f"was killed recently; retrying in {_REFUSED_RETRY:.0f} s"
            )
            time.sleep(_REFUSED_RETRY)
        for service in others:
            say(f"{service.name}: {'started' if service.start() else 'already running'}")

    def _await_coordinator(self, end: float, say: Say) -> None:
        """Wait for a coordinator that may be starting; fail at once if waiting cannot help."""
        while not (finding := self._check_coordinator()).ok:
            if not finding.transient or time.monotonic() > end:
                finding.require_ok()
            say(f"{finding.sentence} Retrying in {_UNREACHABLE_RETRY:.0f} s.")
            time.sleep(_UNREACHABLE_RETRY)

    def _check_coordinator(self) -> Finding:
        return next(check_connection(self.settings.address, self.settings.port, self.authority))

    def _wait_joined(self, node: Service, before: int, end: float) -> bool:
        """Wait until the SuperNode has its id; False if it ends or times out."""
        while node.process() is not None and time.monotonic() < end:
            with node.log.open("rb") as log:
                log.seek(before)
                if b"SuperNode ID:" in log.read():
                    return True
            time.sleep(0.2)
        return False


def node_config(settings: SiteSettings) -> dict[str, str]:
    """The SuperNode's config for the client app: name, data, state and key of the site."""
    return {
        "client": settings.site,
        "data": str(settings.data),
        "state": "state",
        "key": NODE_KEY,
    }


def join(
    invitation: Path,
    data: Path,
    folder: Path | None,
    runtime_port: int,
    say: Say,
    metrics_port: int | None = None,
) -> tuple[Site, Path]:
    """Set up the site's folder and key; also return the application for the coordinator."""
    from ramet.data.own import site_name  # imports PyTorch, which monitoring does not need

    given = read(invitation, Invitation)
    if given.setting == OWN and data.suffix != ".toml":
        raise RametError(
            "sites bring their own graphs to this consortium. Give their TOML: --data site.toml."
        )
    if given.setting == OWN and data.exists() and (named := site_name(data)) != given.site:
        raise RametError(
            f"{data} describes the graphs of {named}, but {invitation} invites {given.site}. Give "
            f'the right file, or set site = "{given.site}" in it.'
        )
    where = (folder or Path(f"{given.consortium}-{given.site}")).absolute()
    if any(character in f"{data}{where}" for character in '"\n'):
        raise RametError("paths must not contain quotes or newlines. Choose another folder.")
    site = Site(
        where,
        SiteSettings(
            **given.model_dump(exclude={"authority"}),
            data=data.absolute(),
            runtime_port=runtime_port,
            metrics_port=metrics_port,
        ),
    )
    make_private_folder(where)
    if site.authority.exists() and site.authority.read_text() != given.authority:
        raise RametError(
            f"{where} trusts a different authority from the one in {invitation}. Ask the "
            "coordinator; if the change is intended, join in a new folder."
        )
    for part in ("logs", "flower", "state", GUARD):
        (where / part).mkdir(exist_ok=True)
    write_guard(where / GUARD, [app_hash(THIN_APP)], site.events)
    key = where / NODE_KEY
    say(f"node.key: {'created' if keys.ensure_node_key(key) else 'exists, kept'}")
    keys.ensure_secret(where / "superexec.secret")
    site.authority.write_text(given.authority)
    write(where / SETTINGS, site.settings)
    site.write_scripts(given.consortium)
    public = keys.public_key_of(key)
    application = where / f"{given.site}.application.toml"
    write(
        application,
        Application(consortium=given.consortium, site=given.site, public_key=public),
    )
    say(f"authority's fingerprint: {keys.fingerprint(given.authority)}")
    say(f"site key's fingerprint: {keys.fingerprint(public)}")
    return site, application
