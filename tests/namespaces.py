"""Network namespaces for the members of a consortium; needs root and iproute2."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

COORDINATOR = "coordinator"
ADDRESS = "10.77.0.1"
"""The coordinator's address, which every site reaches over its own link."""


@dataclass(frozen=True)
class Star:
    """A namespace for the coordinator and one for each site, with links from each to the first."""

    sites: tuple[str, ...]

    def namespace(self, member: str) -> str:
        return f"ramet-{os.getpid()}-{member}"

    def enter(self, member: str) -> list[str]:
        """The command that runs another one in the network of a member."""
        return ["nsenter", f"--net={Path('/run/netns', self.namespace(member))}"]

    def site_address(self, site: str) -> str:
        return f"10.77.{self.sites.index(site) + 1}.2"

    def set_link(self, site: str, state: str) -> None:
        """Cut the link of a site (`down`) or restore it (`up`)."""
        self._ip(COORDINATOR, f"link set {self._link(site)} {state}")

    def create(self) -> None:
        for member in (COORDINATOR, *self.sites):
            _run("ip", "netns", "add", self.namespace(member))
            self._ip(member, "link set lo up")
        self._ip(COORDINATOR, f"addr add {ADDRESS}/32 dev lo")
        for site in self.sites:
            self._join(site)

    def _join(self, site: str) -> None:
        link, address = self._link(site), self.site_address(site)
        gateway = address.removesuffix("2") + "1"
        self._ip(
            COORDINATOR, f"link add {link} type veth peer name uplink netns {self.namespace(site)}"
        )
        self._ip(COORDINATOR, f"addr add {gateway}/24 dev {link}")
        self._ip(COORDINATOR, f"link set {link} up")
        self._ip(site, f"addr add {address}/24 dev uplink")
        self._ip(site, "link set uplink up")
        self._ip(site, f"route add {ADDRESS} via {gateway}")

    def delete(self) -> None:
        """Delete the namespaces, and with them their links."""
        for member in (COORDINATOR, *self.sites):
            if Path("/run/netns", self.namespace(member)).exists():
                _run("ip", "netns", "delete", self.namespace(member))

    def _link(self, site: str) -> str:
        return f"site{self.sites.index(site) + 1}"

    def _ip(self, member: str, words: str) -> None:
        _run("ip", "-n", self.namespace(member), *words.split())


@contextmanager
def star(sites: Sequence[str]) -> Iterator[Star]:
    networks = Star(tuple(sites))
    try:
        networks.create()
        yield networks
    finally:
        networks.delete()


def _run(*command: str) -> None:
    subprocess.run(command, check=True)
