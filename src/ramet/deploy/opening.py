"""Open the coordinator or the site in a folder."""

from __future__ import annotations

from pathlib import Path

from ramet.deploy import coordinator, site
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.site import Site
from ramet.errors import RametError


def find_party(folder: Path) -> Coordinator | Site | None:
    if (folder / coordinator.SETTINGS).exists():
        return Coordinator.open(folder)
    return Site.open(folder) if (folder / site.SETTINGS).exists() else None


def open_party(folder: Path) -> Coordinator | Site:
    party = find_party(folder)
    if party is None:
        raise RametError(
            f"{folder} is not a party of a consortium. Give the folder that `ramet deploy init` or "
            "`ramet deploy join` created."
        )
    return party
