"""The best round: the one with the best mean validation score, the first of equals."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from math import isnan

from ramet.metrics.record import Record
from ramet.scale import SHARE, Scale


@dataclass(frozen=True)
class Evaluated:
    """The mean validation score of a round, and the clients that evaluated it, if known."""

    round: int
    val: float
    clients: frozenset[str]

    @staticmethod
    def of(record: Record) -> Evaluated:
        clients = (client for client, scores in record.evaluated.items() if "val" in scores)
        return Evaluated(record.round, record.mean("val"), frozenset(clients))


def best_of(rounds: Sequence[Evaluated], scale: Scale = SHARE) -> Evaluated:
    """The best of the rounds that the same clients evaluated as the last one.

    Leaving out a hard client improves the mean, so other rounds cannot be compared with it. Without
    any score, the last round counts as the best.
    """
    same_clients = [one for one in rounds if one.clients == rounds[-1].clients]
    known = [one for one in same_clients if not isnan(one.val)]
    return scale.best(known, lambda one: one.val) if known else rounds[-1]


@dataclass(frozen=True)
class History:
    """The rounds that have been evaluated so far."""

    clients: frozenset[str]
    """All clients of the run."""
    scale: Scale = SHARE
    """That of the validation score."""
    rounds: list[Evaluated] = field(default_factory=list)

    def add(self, record: Record) -> None:
        """Add a round, unless nobody has evaluated it."""
        evaluated = Evaluated.of(record)
        if not isnan(evaluated.val):
            self.rounds.append(evaluated)

    def candidates(self) -> list[int]:
        """The rounds that may turn out to be the best: so far, and if all clients answer again."""
        by_all = [one for one in self.rounds if one.clients == self.clients]
        found = (best_of(rounds, self.scale) for rounds in (self.rounds, by_all) if rounds)
        return sorted({one.round for one in found})

    def rounds_since_best(self) -> int:
        return self.rounds[-1].round - self.best.round if self.rounds else 0

    @property
    def best(self) -> Evaluated:
        return best_of(self.rounds, self.scale)
