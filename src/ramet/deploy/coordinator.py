"""The coordinator's side: SuperLink, SuperExec, proxy, and the sites' keys."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ramet.deploy import keys
from ramet.deploy.authority import CERTIFICATES
from ramet.deploy.consortium import Application, Consortium, read
from ramet.deploy.members import Members
from ramet.deploy.party import Party, Say
from ramet.deploy.probes import Check, check_nginx, check_port
from ramet.deploy.proxy import CLIENTS, reload_nginx
from ramet.deploy.registration import Registration
from ramet.deploy.services import Service, exporter, scheduled, superexec
from ramet.disk import all_or_nothing, write_atomically
from ramet.errors import RametError, unknown
from ramet.flower.programs import LOOPBACK, wait_until_up

SETTINGS, SERVER_KEY = "consortium.toml", "server.key"
SIGNING_KEY, SIGNING_CERTIFICATE = "coordinator.key", "coordinator.pem"
"""The key that signs requests to sites, and the authority's certificate for it."""
PROGRAMS = "programs"
"""The folder with programs of Ramet that take precedence over Flower's."""
_DATABASE = "sqlite:///superlink.db?timeout=25"
"""SQLite waits 25 s for a lock; its 5 s were too few for ten sites on a busy machine."""


@dataclass(frozen=True)
class Coordinator(Party):
    """A SuperLink with process isolation and SQLite, an authenticated SuperExec, and a proxy."""

    consortium: Consortium

    @staticmethod
    def open(folder: Path) -> Coordinator:
        return Coordinator(folder, read(folder / SETTINGS, Consortium))

    @property
    def member(self) -> str:
        return self.consortium.name

    @property
    def authority(self) -> Path:
        return self.folder / CERTIFICATES

    @property
    def is_initialised(self) -> bool:
        """Whether `init` has set up this folder; False if it only holds the settings."""
        return self.admitted.exists()

    @property
    def admitted(self) -> Path:
        """The folder with the keys and certificates of admitted sites."""
        return self.folder / "admitted"

    @property
    def members(self) -> Members:
        return Members(self.admitted)

    @property
    def _registration(self) -> Registration:
        return Registration(self.members, self.flower)

    @property
    def _proxy_host(self) -> str:
        """The address at which this machine reaches its own proxy."""
        listen = self.consortium.listen
        if not listen.is_unspecified:
            return str(listen)
        return "127.0.0.1" if listen.version == 4 else "::1"

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
                    *("--isolation", "process", "--database", _DATABASE),
                    *("--superexec-auth-secret-file", "superexec.secret"),
                    *("--enable-supernode-auth", "--disable-runtime-dependency-installation"),
                ),
                listens=("127.0.0.1", self.consortium.link_port),
            ),
            replace(superexec(self.folder, link, root_certificates), bin_folder=PROGRAMS),
            Service(
                self.folder,
                "proxy",
                "nginx, which forwards the Fleet API and refuses everything else",
                ("nginx", "-e", "stderr", "-p", "./", "-c", "nginx.conf"),
                listens=(self._proxy_host, self.consortium.port),
                networked=True,
            ),
            *exporter(self.folder, self.consortium.metrics_port),
        )

    def timed(self) -> Sequence[Service]:
        return scheduled(self.folder) if self.consortium.schedule else ()

    def check_ports(self) -> Iterator[Check]:
        link, _, proxy, *_ = self.services()
        yield check_port(link, LOOPBACK, self.consortium.link_port, "link_port")
        yield check_port(proxy, str(self.consortium.listen), self.consortium.port, "port")

    def start(self, say: Say) -> None:
        self._check_startable()
        link, *others = self.services()
        self.flower.connect(self.consortium.link_port, self.authority)
        _report_start(link, link.start(), say)
        if not wait_until_up(self._link_health, lambda: link.process() is not None, self.authority):
            raise RametError(f"the SuperLink did not start. See {link.log}.")
        for service in others:
            _report_start(service, service.start(), say)
        for site in self.consortium.sites:
            self._registration.register(site, say)
        time.sleep(1.0)
        for service in others:
            if service.process() is None:
                raise RametError(f"the {service.name} did not start. See {service.log}.")

    def _check_startable(self) -> None:
        """Fail in a moment, instead of after minutes, if a service cannot start."""
        check_nginx().require_ok()
        services = self.services()
        for service in services:
            if service.process() is None:
                service.kill_orphans()  # which may listen on our ports
        link_port, port = self.check_ports()
        link_port.require_ok()
        if not services[2].low_port:  # nginx may have a privilege that this command lacks
            port.require_ok()

    def admit(self, application: Path, say: Say) -> None:
        """Accept a site's key and certificate; register it now or when the SuperLink starts."""
        given = read(application, Application)
        if given.consortium != self.consortium.name:
            raise RametError(
                f"{application} is for the consortium {given.consortium}, but this is "
                f"{self.consortium.name}. Ask the site for the right file."
            )
        self._check_member(given.site)
        with all_or_nothing():
            self.members.admit(given)
            self.write_clients({**self.certificates(), given.site: given.certificate})
        say(f"{given.site}: admitted, fingerprint {keys.fingerprint(given.public_key)}")
        self._reload_proxy(say)
        if self._superlink_running():
            self._registration.register(given.site, say)

    def revoke(self, site: str, say: Say) -> None:
        """Remove a site's key and certificate; the proxy refuses it from now on."""
        self._check_member(site)
        with all_or_nothing():
            self.members.revoke(site)
            others = {name: one for name, one in self.certificates().items() if name != site}
            self.write_clients(others)
        say(f"{site}: revoked")
        self._reload_proxy(say)
        if self.members.node(site).exists() and not self._superlink_running():
            raise RametError(
                f"the proxy refuses {site}, but its key is still registered at the SuperLink, "
                f"which is not running. Run `ramet deploy start {self.folder}`, then revoke again."
            )
        self._registration.unregister(site)

    def certificates(self) -> dict[str, str]:
        """The certificates of admitted sites, by name."""
        files = self.members.certificates(self.consortium.sites)
        return {file.stem: file.read_text() for file in files}

    def write_clients(self, certificates: Mapping[str, str], authority: str | None = None) -> None:
        """Write the certificates that the proxy accepts; nginx needs at least one."""
        first = self.authority.read_text() if authority is None else authority
        write_atomically(self.folder / CLIENTS, "".join([first, *certificates.values()]))

    def _reload_proxy(self, say: Say) -> None:
        if reload_nginx(self.folder):
            say("proxy: reloaded")
        else:
            say(
                "proxy: not running on this machine as your user. If it runs in a container, "
                f"reload it: docker compose --project-directory {self.folder} kill -s HUP proxy"
            )

    def site_statuses(self) -> dict[str, str]:
        """The status of each site, as reported by the SuperLink."""
        self.check_running()
        return self._registration.statuses(self.consortium.sites)

    def new_run_folder(self) -> Path:
        """A new folder for a run, named after the current time."""
        return self.folder / "runs" / time.strftime("%Y%m%d-%H%M%S")

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
        self.flower.connect(self.consortium.link_port, self.authority)
        within = 30.0 if self.services()[0].process() else 3.0
        return wait_until_up(self._link_health, lambda: True, self.authority, within=within)

    @property
    def _link_health(self) -> str:
        return f"https://127.0.0.1:{self.consortium.link_port}/health"

    def check_admitted(self, needed: int) -> None:
        """Check that so many sites are admitted."""
        sites = self.consortium.sites
        admitted = [site for site in sites if self.members.key(site).exists()]
        if len(admitted) < needed:
            raise RametError(
                f"{len(admitted)} of {len(sites)} sites are admitted, but {needed} are needed. "
                f"Run `ramet deploy admit SITE.application.toml {self.folder}` for each site first."
            )


def _report_start(service: Service, is_new: bool, say: Say) -> None:
    say(f"{service.name}: {'started' if is_new else 'already running'}")
