"""Open the coordinator's or a site's side in a folder."""

from __future__ import annotations

from pathlib import Path

from ramet.deploy import coordinator, site
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.site import Site
from ramet.errors import RametError


def find_side(folder: Path) -> Coordinator | Site | None:
    if (folder / coordinator.SETTINGS).exists():
        return Coordinator.open(folder)
    return Site.open(folder) if (folder / site.SETTINGS).exists() else None


def open_side(folder: Path) -> Coordinator | Site:
    side = find_side(folder)
    if side is None:
        raise RametError(
            f"{folder} is not a side of a consortium. Give the folder that `ramet deploy init` or "
            "`ramet deploy join` created."
        )
    return side
