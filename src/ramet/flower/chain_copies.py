"""The copies of a run's chain that are below some folders."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

from ramet.engine.chain import FILE
from ramet.engine.chain_audit import COORDINATOR, Copy, read_copy
from ramet.engine.site.site_chain import FOLDER
from ramet.errors import RametError
from ramet.experiment.chain_parts import CHARTER, read_charter
from ramet.experiment.run_folder import RunFolder
from ramet.flower.site_charters import FOLDER as CHARTERS
from ramet.secure.charter import SignedCharter


def chain_copies(folders: Sequence[Path], run: str | None = None) -> list[Copy]:
    """The copies of one run's chain; which one must be said if there are several."""
    found = [copy for folder in folders for copy in _below(folder)]
    runs = {copy.charter.charter.identity for copy in found}
    if run is not None:
        found = [copy for copy in found if copy.charter.charter.identity.startswith(run)]
    elif len(runs) > 1:
        raise RametError(f"the folders have chains of {len(runs)} runs. Choose one with --run.")
    if not found:
        raise RametError("there is no chain in these folders. Only verified runs have one.")
    return found


def _below(folder: Path) -> Iterator[Copy]:
    if (folder / CHARTER).exists():
        charter = read_charter(folder)
        yield read_copy(COORDINATOR, folder / "server" / FILE, charter)
        clients = folder / "clients" / RunFolder(folder).run_name
        for chain in sorted(clients.glob(f"*/{FOLDER}/{FILE}")):
            yield read_copy(chain.parent.parent.name, chain, charter)
        return
    for path in sorted((folder / CHARTERS).glob("*.json")):
        charter = SignedCharter.parse(json.loads(path.read_text())["signed"])
        clients = folder / "clients" / charter.charter.identity
        for chain in sorted(clients.glob(f"*/{FOLDER}/{FILE}")):
            yield read_copy(chain.parent.parent.name, chain, charter)
