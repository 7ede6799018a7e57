"""The sites' keys at the SuperLink."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ramet.deploy.members import NEW_KEY, Members
from ramet.deploy.party import Say
from ramet.disk import write_atomically
from ramet.errors import RametError
from ramet.flower.programs import Flower

BY_FILES = "exchanges files"
"""The status of a site that does not connect."""
NEVER_STARTED = "admitted, never started"
REACHED = ("online", BY_FILES)
"""The statuses of sites that a run can ask."""


def absent_sites(statuses: Mapping[str, str]) -> str:
    """The sites that a run cannot ask, each with its status."""
    return "; ".join(f"{site} is {one}" for site, one in statuses.items() if one not in REACHED)


@dataclass(frozen=True)
class Registration:
    """Registers admitted sites at a SuperLink that runs, and asks for their status."""

    members: Members
    flower: Flower

    def register(self, site: str, say: Say) -> None:
        """Register the site's key, if it is admitted and was not registered before."""
        key, node = self.members.key(site), self.members.node(site)
        if not key.exists() or node.exists():
            return
        try:
            answer = self.flower.flwr("supernode", "register", str(key))
        except RametError as error:
            if "already in use" not in str(error):
                raise
            raise RametError(
                f"Flower has unregistered the key of {site} before, which is final. Run "
                f"`ramet deploy revoke {site} {self.members.folder.parent}`. {NEW_KEY}"
            ) from error
        write_atomically(node, str(answer["node-id"]))
        say(f"{site}: registered")

    def unregister(self, site: str) -> None:
        """Remove the site's node from Flower, if it was registered."""
        node = self.members.node(site)
        if node.exists():
            self.flower.flwr("supernode", "unregister", node.read_text())
            node.unlink()

    def statuses(self, sites: Iterable[str]) -> dict[str, str]:
        """The status of each site, as reported by the SuperLink."""
        listed = self.flower.flwr("supernode", "list")["nodes"]
        nodes = {str(node["node-id"]): str(node["status"]) for node in listed}
        return {site: self._status(site, nodes) for site in sites}

    def _status(self, site: str, nodes: Mapping[str, str]) -> str:
        if not self.members.key(site).exists():
            return "not admitted"
        if not self.members.node(site).exists():
            return "admitted, not registered"
        if self.members.exchanges_files(site):
            return BY_FILES
        status = nodes.get(self.members.node(site).read_text(), "unknown to the SuperLink")
        return NEVER_STARTED if status == "registered" else status
