"""The coordinator's side: SuperLink, SuperExec and proxy, and the sites' keys."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ramet.deploy import keys
from ramet.deploy.consortium import Application, Consortium, Invitation, read, write
from ramet.deploy.proxy import TEMPORARY, nginx_conf
from ramet.deploy.services import Service, exporter, superexec
from ramet.deploy.side import Side, Tell, make_private_folder
from ramet.errors import RametError, unknown
from ramet.flower.programs import answers

SETTINGS = "consortium.toml"


@dataclass(frozen=True)
class Coordinator(Side):
    """The production profile: process isolation, SQLite, a SuperExec with a secret, a proxy."""

    consortium: Consortium

    @staticmethod
    def open(folder: Path) -> Coordinator:
        return Coordinator(folder, read(folder / SETTINGS, Consortium))

    @property
    def authority(self) -> Path:
        return self.folder / "authority.pem"

    @property
    def is_made(self) -> bool:
        """Whether this is what `init` made, and not just the settings that it is given."""
        return self.admitted.exists()

    @property
    def admitted(self) -> Path:
        """The public keys of the sites that may take part, one file SITE.pub each."""
        return self.folder / "admitted"

    @property
    def _proxy_host(self) -> str:
        """Where this machine itself reaches the proxy."""
        listen = self.consortium.listen
        return "127.0.0.1" if listen.is_unspecified else str(listen)

    def services(self) -> Sequence[Service]:
        link = f"127.0.0.1:{self.consortium.link_port}"
        trust = ("--root-certificates", self.authority.name)
        return (
            Service(
                self.folder,
                "superlink",
                "Flower's SuperLink, on loopback",
                (
                    *("flower-superlink", "--host", "127.0.0.1"),
                    *("--port", str(self.consortium.link_port)),
                    *("--ssl-certfile", "server.pem", "--ssl-keyfile", "server.key"),
                    *("--ssl-ca-certfile", self.authority.name),
                    *("--isolation", "process", "--database", "superlink.db"),
                    *("--superexec-auth-secret-file", "superexec.secret"),
                    *("--enable-supernode-auth", "--disable-runtime-dependency-installation"),
                ),
                listens=("127.0.0.1", self.consortium.link_port),
            ),
            superexec(self.folder, link, trust),
            Service(
                self.folder,
                "proxy",
                "nginx, which lets sites and nobody else reach the Fleet API and nothing else",
                ("nginx", "-e", "stderr", "-p", "./", "-c", "nginx.conf"),
                listens=(self._proxy_host, self.consortium.port),
            ),
            *exporter(self.folder, self.consortium.metrics_port),
        )

    def start(self, tell: Tell) -> None:
        link, *others = self.services()
        self.flower.connect(self.consortium.link_port, self.authority)
        _tell_started(link, link.start(), tell)
        if not answers(self._link_health, lambda: link.process() is not None, self.authority):
            raise RametError(f"the SuperLink did not start. See {link.log}.")
        for service in others:
            _tell_started(service, service.start(), tell)
        for site in self.consortium.sites:
            self._register(site, tell)
        time.sleep(1.0)
        for service in others:
            if service.process() is None:
                raise RametError(f"the {service.name} did not start. See {service.log}.")

    def admit(self, application: Path, tell: Tell) -> None:
        """Take a site's public key; the SuperLink learns it now, or when it starts."""
        given = read(application, Application)
        if given.consortium != self.consortium.name:
            raise RametError(
                f"{application} is for the consortium {given.consortium}, and this one is "
                f"{self.consortium.name}. Ask the site for the right file."
            )
        self._check_member(given.site)
        keys.check_public(given.public_key)
        own = self._key_of(given.site)
        if own.exists() and own.read_text() != given.public_key:
            raise RametError(
                f"{given.site} is admitted with another key. If the site has a new one, do "
                f"`ramet deploy revoke {given.site}` first."
            )
        own.write_text(given.public_key)
        tell(f"{given.site}: admitted, fingerprint {keys.fingerprint(given.public_key)}")
        self._register(given.site, tell)

    def revoke(self, site: str, tell: Tell) -> None:
        """Forget a site's key: its SuperNode is refused from now on."""
        self._check_member(site)
        if self._node_of(site).exists():
            self.check_running()
            self.flower.ask("supernode", "unregister", self._node_of(site).read_text())
            self._node_of(site).unlink()
        self._key_of(site).unlink(missing_ok=True)
        tell(f"{site}: revoked")

    def online(self) -> dict[str, str]:
        """Each site and how the SuperLink sees it."""
        self.check_running()
        seen = {str(node["node-id"]): node["status"] for node in self._nodes()}
        return {site: self._status_of(site, seen) for site in self.consortium.sites}

    def fresh_run(self) -> Path:
        """A new folder for a run, named by the time."""
        return self.folder / "runs" / time.strftime("%Y%m%d-%H%M%S")

    def _register(self, site: str, tell: Tell) -> None:
        key, node = self._key_of(site), self._node_of(site)
        if not key.exists() or node.exists() or not self._link_runs():
            return
        answer = self.flower.ask("supernode", "register", str(key))
        node.write_text(str(answer["node-id"]))
        tell(f"{site}: registered")

    def _nodes(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = self.flower.ask("supernode", "list")["nodes"]
        return found

    def _status_of(self, site: str, seen: dict[str, str]) -> str:
        if not self._key_of(site).exists():
            return "not admitted"
        if not self._node_of(site).exists():
            return "admitted, not registered"
        return seen.get(self._node_of(site).read_text(), "unknown to the SuperLink")

    def _check_member(self, site: str) -> None:
        if site not in self.consortium.sites:
            raise unknown("site", site, self.consortium.sites)

    def check_running(self) -> None:
        if not self._link_runs():
            raise RametError(f"the SuperLink does not run. Do `ramet deploy start {self.folder}`.")

    def _link_runs(self) -> bool:
        """Whether `ramet deploy start` started the SuperLink, or systemd or Docker did."""
        if self.services()[0].process() is not None:
            return True
        self.flower.connect(self.consortium.link_port, self.authority)
        return answers(self._link_health, lambda: True, self.authority, within=1.0)

    @property
    def _link_health(self) -> str:
        return f"https://127.0.0.1:{self.consortium.link_port}/health"

    def check_admitted(self) -> None:
        """Rounds with fewer sites than the quorum never count."""
        quorum, sites = self.consortium.quorum, self.consortium.sites
        admitted = [site for site in sites if self._key_of(site).exists()]
        if len(admitted) < quorum:
            raise RametError(
                f"{len(admitted)} of {len(sites)} sites are admitted, and the quorum is {quorum}. "
                f"Do `ramet deploy admit SITE.application.toml {self.folder}` for each first."
            )

    def _key_of(self, site: str) -> Path:
        return self.admitted / f"{site}.pub"

    def _node_of(self, site: str) -> Path:
        """Flower's number for the site's key."""
        return self.admitted / f"{site}.node"


def init(settings: Path, folder: Path | None, tell: Tell) -> Coordinator:
    """Make the coordinator's folder; doing it again keeps all keys and writes the rest anew."""
    consortium = read(settings, Consortium)
    where = (folder or Path(consortium.name)).absolute()
    side = Coordinator(where, consortium)
    make_private_folder(where)
    for part in ("admitted", "invitations", "logs", "flower", "runs", TEMPORARY):
        (where / part).mkdir(exist_ok=True)
    authority_key, server_key = where / "authority.key", where / "server.key"
    made = {
        authority_key: keys.keep_key(authority_key),
        server_key: keys.keep_key(server_key),
        where / "superexec.secret": keys.keep_secret(where / "superexec.secret"),
    }
    for path, is_new in made.items():
        tell(f"{path.name}: {'made' if is_new else 'kept, it was there'}")
    if made[authority_key] or not side.authority.exists():
        side.authority.write_text(keys.make_authority(consortium.name, authority_key))
    certificate = keys.make_server_certificate(
        consortium.name, consortium.address, server_key, authority_key
    )
    (where / "server.pem").write_text(certificate)
    (where / "nginx.conf").write_text(nginx_conf(consortium))
    write(where / SETTINGS, consortium)
    side.write_scripts(consortium.name)
    authority = side.authority.read_text()
    for site in consortium.sites:
        invitation = Invitation(
            consortium=consortium.name,
            site=site,
            address=consortium.address,
            port=consortium.port,
            method=consortium.method,
            setting=consortium.setting,
            authority=authority,
        )
        write(where / "invitations" / f"{site}.toml", invitation)
        tell(f"invitations/{site}.toml: for {site}")
    tell(f"authority's fingerprint: {keys.fingerprint(authority)}")
    return side


def _tell_started(service: Service, is_new: bool, tell: Tell) -> None:
    tell(f"{service.name}: {'started' if is_new else 'runs already'}")
