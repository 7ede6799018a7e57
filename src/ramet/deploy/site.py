"""A site's side: its own key, a SuperNode that calls the coordinator, and a SuperExec."""

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
from ramet.deploy.probes import Finding, port, reach
from ramet.deploy.services import Service, exporter, superexec
from ramet.deploy.side import Side, Tell, make_private_folder
from ramet.errors import RametError
from ramet.flower import THIN_APP
from ramet.flower.guard import app_hash, write_guard

SETTINGS, NODE_KEY = "site.toml", "node.key"
GUARD = "guard"
"""The folder with the list of apps that may run here, and the program that reads it."""
_JOINING = 150.0
_REFUSED_FOR = 15.0
_AWAY_FOR = 5.0


class SiteSettings(Membership):
    """Who this site is, whom it calls, and where its data lie."""

    data: Path
    """A folder of datasets; with own graphs, the TOML that describes them."""
    runtime_port: Port
    metrics_port: Port | None = None

    @property
    def options(self) -> dict[str, str]:
        return site_options(self.setting, [self.site])


@dataclass(frozen=True)
class Site(Side):
    """One SuperNode. It listens on loopback alone, and connects to its coordinator alone."""

    settings: SiteSettings

    @staticmethod
    def open(folder: Path) -> Site:
        return Site(folder, read(folder / SETTINGS, SiteSettings))

    @property
    def authority(self) -> Path:
        return self.folder / "authority.pem"

    @property
    def accepted(self) -> Path:
        """The list of apps that may run here."""
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
            replace(superexec(self.folder, runtime, ("--insecure",)), programs=GUARD),
            *exporter(self.folder, self.settings.metrics_port),
        )

    def start(self, tell: Tell) -> None:
        """A SuperNode that was killed is refused for up to a minute: try again until it is in."""
        node, *others = self.services()
        end = time.monotonic() + _JOINING
        if node.process() is None:
            node.bury()
            port(node, "127.0.0.1", self.settings.runtime_port, "--runtime-port").demand()
            self._await_coordinator(end, tell)
        while True:
            before = node.log.stat().st_size if node.log.exists() else 0
            if not node.start():
                tell(f"{node.name}: runs already")
                break
            tell(f"{node.name}: started")
            if self._joined(node, before, end):
                tell(f"{node.name}: the coordinator has accepted it")
                break
            if time.monotonic() > end:
                node.stop()
                raise RametError(
                    f"the coordinator answers, but did not accept this site within {_JOINING:.0f} "
                    f"s: it is not admitted. Ask for `ramet deploy admit` there; see {node.log}."
                )
            tell(
                f"{node.name}: the coordinator refused it, as it does with a site that is not "
                f"admitted or was killed lately; trying again in {_REFUSED_FOR:.0f} s"
            )
            time.sleep(_REFUSED_FOR)
        for service in others:
            tell(f"{service.name}: {'started' if service.start() else 'runs already'}")

    def _await_coordinator(self, end: float, tell: Tell) -> None:
        """It may be starting; but waiting gives no host its name, and none another certificate."""
        while not (seen := self._coordinator()).well:
            if not seen.may_pass or time.monotonic() > end:
                seen.demand()
            tell(f"{seen.sentence} Trying again in {_AWAY_FOR:.0f} s.")
            time.sleep(_AWAY_FOR)

    def _coordinator(self) -> Finding:
        return next(reach(self.settings.address, self.settings.port, self.authority))

    def _joined(self, node: Service, before: int, end: float) -> bool:
        """Whether the SuperNode got its number; False once it gave up."""
        while node.process() is not None and time.monotonic() < end:
            with node.log.open("rb") as log:
                log.seek(before)
                if b"SuperNode ID:" in log.read():
                    return True
            time.sleep(0.2)
        return False


def node_config(settings: SiteSettings) -> dict[str, str]:
    """What the SuperNode tells the client app: who it is, and where its data and state lie."""
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
    tell: Tell,
    metrics_port: int | None = None,
) -> tuple[Site, Path]:
    """Make the site's folder and key; gives the file with the public key for the coordinator."""
    from ramet.data.own import site_name  # PyTorch: those who watch a side do without

    given = read(invitation, Invitation)
    if given.setting == OWN and data.suffix != ".toml":
        raise RametError("sites bring their own graphs here. Name their TOML: --data site.toml.")
    if given.setting == OWN and data.exists() and (named := site_name(data)) != given.site:
        raise RametError(
            f"{data} describes the graphs of {named}, and {invitation} invites {given.site}. Name "
            f'the other file, or write site = "{given.site}" in it.'
        )
    where = (folder or Path(f"{given.consortium}-{given.site}")).absolute()
    if any(letter in f"{data}{where}" for letter in '"\n'):
        raise RametError("quotation marks in a folder's name are too much. Give another folder.")
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
            f"{where} trusts another authority than {invitation} has. Ask the coordinator, and "
            "join in a new folder if that is right."
        )
    for part in ("logs", "flower", "state", GUARD):
        (where / part).mkdir(exist_ok=True)
    write_guard(where / GUARD, [app_hash(THIN_APP)], site.events)
    key = where / NODE_KEY
    tell(f"node.key: {'made' if keys.keep_node_key(key) else 'kept, it was there'}")
    keys.keep_secret(where / "superexec.secret")
    site.authority.write_text(given.authority)
    write(where / SETTINGS, site.settings)
    site.write_scripts(given.consortium)
    public = keys.public_part(key)
    application = where / f"{given.site}.application.toml"
    write(
        application,
        Application(consortium=given.consortium, site=given.site, public_key=public),
    )
    tell(f"authority's fingerprint: {keys.fingerprint(given.authority)}")
    tell(f"own key's fingerprint: {keys.fingerprint(public)}")
    return site, application
