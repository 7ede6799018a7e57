"""What the server knows of the rounds that have been evaluated, and keeps of the best ones."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ramet.engine.store.checkpoint import Snapshots
from ramet.metrics import Record
from ramet.metrics.best import History
from ramet.rules.method import AssembledMethod, step_of

BEST = "best"
"""The folder, below the server's snapshots, with those of the best rounds."""


@dataclass(frozen=True)
class Evaluations:
    """The evaluated rounds, and the server's snapshots of those that may be the best."""

    method: AssembledMethod
    snapshots: Snapshots
    history: History

    @staticmethod
    def after(
        earlier: Iterable[Record],
        method: AssembledMethod,
        clients: Iterable[str],
        snapshots: Snapshots,
    ) -> Evaluations:
        history = History(frozenset(clients))
        for record in earlier:
            history.add(record)
        return Evaluations(method, snapshots, history)

    def add(self, record: Record) -> None:
        """Add a round; its snapshot is still there, because the next one is saved later.

        Earlier candidates stay, in case the server is killed now and this round is evaluated again.
        """
        before = self.history.candidates()
        self.history.add(record)
        if record.round in self.history.candidates():
            best = Snapshots(self.snapshots.folder / BEST, keep=1)
            step = step_of(self.method, record.round)
            self.snapshots.share(step, best, as_step=record.round, pinned=before)
