"""Copies in memory of the snapshots that this process has written, so that it need not read them.

The file stays what counts: a copy is used only if the file is the one that was written with it.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ramet.engine.store.checkpoint import Snapshot, Snapshots
from ramet.engine.store.client_state import EVALUATED

_LIMIT = 64 * 2**20
"""Bytes of all copies."""


@dataclass(frozen=True)
class _Copy:
    snapshot: Snapshot
    file: tuple[int, ...]

    @property
    def nbytes(self) -> int:
        return sum(array.nbytes for array in self.snapshot.arrays.values())


@dataclass
class RecentSnapshots:
    """Copies of clients' last snapshots, as many as fit.

    A copy that does not fit is not kept, instead of replacing others: where all clients are asked
    in turn, each would be replaced before it is asked again.
    """

    limit: int = _LIMIT
    _copies: dict[Path, _Copy] = field(default_factory=dict)
    _nbytes: int = 0

    def __reduce__(self) -> tuple[type[RecentSnapshots], tuple[int]]:
        """Copies stay in the memory of their process."""
        return RecentSnapshots, (self.limit,)

    def load(self, snapshots: Snapshots, step: int) -> Snapshot:
        """Load the snapshot of a step; a copy can be taken once, so its arrays may be changed."""
        copy = self._pop(snapshots.folder)
        if copy is None or copy.snapshot.step != step:
            return snapshots.load(step)
        return copy.snapshot if copy.file == snapshots.file_identity(step) else snapshots.load(step)

    def save(self, snapshots: Snapshots, snapshot: Snapshot, pinned: list[int]) -> None:
        """Save a snapshot, and keep a copy of what a client begins its next round with."""
        snapshots.save(snapshot, pinned)
        self._pop(snapshots.folder)
        names = sorted(name for name in snapshot.arrays if not name.startswith(EVALUATED))
        if self._nbytes + sum(snapshot.arrays[name].nbytes for name in names) > self.limit:
            return
        arrays = {name: np.array(snapshot.arrays[name], order="C") for name in names}
        facts = json.loads(json.dumps(snapshot.facts))
        file = snapshots.file_identity(snapshot.step)
        copy = _Copy(Snapshot(snapshot.step, arrays, facts), file)
        self._copies[snapshots.folder] = copy
        self._nbytes += copy.nbytes

    def _pop(self, folder: Path) -> _Copy | None:
        copy = self._copies.pop(folder, None)
        self._nbytes -= copy.nbytes if copy else 0
        return copy
