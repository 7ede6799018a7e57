"""Whose side lies in a folder."""

from __future__ import annotations

from pathlib import Path

from ramet.deploy import coordinator, site
from ramet.deploy.coordinator import Coordinator
from ramet.deploy.site import Site
from ramet.errors import RametError


def found_side(folder: Path) -> Coordinator | Site | None:
    if (folder / coordinator.SETTINGS).exists():
        return Coordinator.open(folder)
    return Site.open(folder) if (folder / site.SETTINGS).exists() else None


def side_of(folder: Path) -> Coordinator | Site:
    found = found_side(folder)
    if found is None:
        raise RametError(
            f"{folder} holds no side of a consortium. Give the folder that `ramet deploy init` or "
            "`ramet deploy join` made."
        )
    return found
