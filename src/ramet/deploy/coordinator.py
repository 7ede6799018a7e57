"""The coordinator's side: SuperLink, SuperExec, proxy, and the sites' keys."""

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
from ramet.deploy.side import Say, Side, make_private_folder
from ramet.errors import RametError, unknown
from ramet.flower.programs import wait_until_up

SETTINGS = "consortium.toml"


@dataclass(frozen=True)
class Coordinator(Side):
    """A SuperLink with process isolation and SQLite, an authenticated SuperExec, and a proxy."""

    consortium: Consortium

    @staticmethod
    def open(folder: Path) -> Coordinator:
        return Coordinator(folder, read(folder / SETTINGS, Consortium))

    @property
    def authority(self) -> Path:
        return self.folder / "authority.pem"

    @property
    def is_initialised(self) -> bool:
        """Whether `init` has set up this folder; False if it only holds the settings."""
        return self.admitted.exists()

    @property
    def admitted(self) -> Path:
        """The folder with the public keys of admitted sites, one SITE.pub each."""
        return self.folder / "admitted"

    @property
    def _proxy_host(self) -> str:
        """The address at which this machine reaches its own proxy."""
        listen = self.consortium.listen
        return "127.0.0.1" if listen.is_unspecified else str(listen)

    def services(self) -> Sequence[Service]:
        link = f"127.0.0.1:{self.consortium.link_port}"
        root_certificates = ("--root-certificates", self.authority.name)
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
            superexec(self.folder, link, root_certificates),
            Service(
                self.folder,
                "proxy",
                "nginx, which forwards the Fleet API and refuses everything else",
                ("nginx", "-e", "stderr", "-p", "./", "-c", "nginx.conf"),
                listens=(self._proxy_host, self.consortium.port),
            ),
            *exporter(self.folder, self.consortium.metrics_port),
        )

    def start(self, say: Say) -> None:
        link, *others = self.services()
        self.flower.connect(self.consortium.link_port, self.authority)
        _report_start(link, link.start(), say)
        if not wait_until_up(self._link_health, lambda: link.process() is not None, self.authority):
            raise RametError(f"the SuperLink did not start. See {link.log}.")
        for service in others:
            _report_start(service, service.start(), say)
        for site in self.consortium.sites:
            self._register(site, say)
        time.sleep(1.0)
        for service in others:
            if service.process() is None:
                raise RametError(f"the {service.name} did not start. See {service.log}.")

    def admit(self, application: Path, say: Say) -> None:
        """Accept a site's public key, and register it now or when the SuperLink starts."""
        given = read(application, Application)
        if given.consortium != self.consortium.name:
            raise RametError(
                f"{application} is for the consortium {given.consortium}, but this is "
                f"{self.consortium.name}. Ask the site for the right file."
            )
        self._check_member(given.site)
        keys.check_public(given.public_key)
        key_file = self._key_file(given.site)
        if key_file.exists() and key_file.read_text() != given.public_key:
            raise RametError(
                f"{given.site} is admitted with another key. If the site has a new key, run "
                f"`ramet deploy revoke {given.site}` first."
            )
        key_file.write_text(given.public_key)
        say(f"{given.site}: admitted, fingerprint {keys.fingerprint(given.public_key)}")
        self._register(given.site, say)

    def revoke(self, site: str, say: Say) -> None:
        """Remove a site's key; its SuperNode is refused from now on."""
        self._check_member(site)
        if self._node_file(site).exists():
            self.check_running()
            self.flower.flwr("supernode", "unregister", self._node_file(site).read_text())
            self._node_file(site).unlink()
        self._key_file(site).unlink(missing_ok=True)
        say(f"{site}: revoked")

    def site_statuses(self) -> dict[str, str]:
        """The status of each site, as reported by the SuperLink."""
        self.check_running()
        nodes = {str(node["node-id"]): node["status"] for node in self._list_nodes()}
        return {site: self._status_of(site, nodes) for site in self.consortium.sites}

    def new_run_folder(self) -> Path:
        """A new folder for a run, named after the current time."""
        return self.folder / "runs" / time.strftime("%Y%m%d-%H%M%S")

    def _register(self, site: str, say: Say) -> None:
        key, node = self._key_file(site), self._node_file(site)
        if not key.exists() or node.exists() or not self._superlink_running():
            return
        answer = self.flower.flwr("supernode", "register", str(key))
        node.write_text(str(answer["node-id"]))
        say(f"{site}: registered")

    def _list_nodes(self) -> list[dict[str, Any]]:
        nodes: list[dict[str, Any]] = self.flower.flwr("supernode", "list")["nodes"]
        return nodes

    def _status_of(self, site: str, nodes: dict[str, str]) -> str:
        if not self._key_file(site).exists():
            return "not admitted"
        if not self._node_file(site).exists():
            return "admitted, not registered"
        return nodes.get(self._node_file(site).read_text(), "unknown to the SuperLink")

    def _check_member(self, site: str) -> None:
        if site not in self.consortium.sites:
            raise unknown("site", site, self.consortium.sites)

    def check_running(self) -> None:
        if not self._superlink_running():
            raise RametError(
                f"the SuperLink is not running. Run `ramet deploy start {self.folder}`."
            )

    def _superlink_running(self) -> bool:
        """Whether the SuperLink runs, started by `ramet deploy start`, systemd or Docker."""
        if self.services()[0].process() is not None:
            return True
        self.flower.connect(self.consortium.link_port, self.authority)
        return wait_until_up(self._link_health, lambda: True, self.authority, within=1.0)

    @property
    def _link_health(self) -> str:
        return f"https://127.0.0.1:{self.consortium.link_port}/health"

    def check_admitted(self) -> None:
        """Check that enough sites are admitted to reach the quorum."""
        quorum, sites = self.consortium.quorum, self.consortium.sites
        admitted = [site for site in sites if self._key_file(site).exists()]
        if len(admitted) < quorum:
            raise RametError(
                f"{len(admitted)} of {len(sites)} sites are admitted, but the quorum is {quorum}. "
                f"Run `ramet deploy admit SITE.application.toml {self.folder}` for each site first."
            )

    def _key_file(self, site: str) -> Path:
        return self.admitted / f"{site}.pub"

    def _node_file(self, site: str) -> Path:
        """The file with Flower's node id for the site's key."""
        return self.admitted / f"{site}.node"


def init(settings: Path, folder: Path | None, say: Say) -> Coordinator:
    """Set up the coordinator's folder; a rerun keeps all keys and rewrites the rest."""
    consortium = read(settings, Consortium)
    where = (folder or Path(consortium.name)).absolute()
    side = Coordinator(where, consortium)
    make_private_folder(where)
    for part in ("admitted", "invitations", "logs", "flower", "runs", TEMPORARY):
        (where / part).mkdir(exist_ok=True)
    authority_key, server_key = where / "authority.key", where / "server.key"
    created = {
        authority_key: keys.ensure_key(authority_key),
        server_key: keys.ensure_key(server_key),
        where / "superexec.secret": keys.ensure_secret(where / "superexec.secret"),
    }
    for path, is_new in created.items():
        say(f"{path.name}: {'created' if is_new else 'exists, kept'}")
    if created[authority_key] or not side.authority.exists():
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
            network=consortium.network,
            setting=consortium.setting,
            authority=authority,
        )
        write(where / "invitations" / f"{site}.toml", invitation)
        say(f"invitations/{site}.toml: for {site}")
    say(f"authority's fingerprint: {keys.fingerprint(authority)}")
    return side


def _report_start(service: Service, is_new: bool, say: Say) -> None:
    say(f"{service.name}: {'started' if is_new else 'already running'}")
