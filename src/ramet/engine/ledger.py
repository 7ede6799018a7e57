"""What a site has spent of its privacy: one file, on disk before a reply leaves.

A round is in the ledger before its training begins. So a crash can only leave a round in it that
nobody received, never the other way round. All rounds of all runs add up.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock
from pydantic import BaseModel, ConfigDict

from ramet.engine.disk import write_atomically
from ramet.errors import RametError
from ramet.policy import Ceiling, PolicyError
from ramet.privacy.accounting import Mechanism, excess_epsilon, spent_epsilon
from ramet.privacy.budget import SENSITIVITY, Unit

NAME = "privacy.json"
_VERSION = 1


class RunEntry(BaseModel):
    """What a site has spent in one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    unit: Unit
    terms: str
    """What the noise was computed for: the budget, the rounds, and how graphs are drawn."""
    data: str
    """SHA-256 of the site's data."""
    noise: float
    """The standard deviation of the noise, divided by the clipping norm."""
    sampling: float
    steps: int
    rounds: tuple[int, ...] = ()
    """The rounds that were answered, or about to be."""

    @property
    def mechanism(self) -> Mechanism:
        """What the accountant is given."""
        return Mechanism(self.noise / SENSITIVITY[self.unit], self.sampling, self.steps)


@dataclass(frozen=True)
class Ledger:
    """The ledger of a site, or of a client of a simulation."""

    path: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Let one process at a time read and write it."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(self.path.with_suffix(".lock")):
            yield

    def runs(self) -> dict[str, RunEntry]:
        """The entries by run; an unreadable file is an error, not an empty ledger."""
        if not self.path.exists():
            return {}
        try:
            facts = json.loads(self.path.read_text())
            return {run: RunEntry.model_validate(entry) for run, entry in facts["runs"].items()}
        except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
            raise RametError(
                f"{self.path}, in which this site keeps what it has spent of its privacy, cannot "
                "be read. Restore it from a backup; without it the site takes part in no private "
                "run."
            ) from error

    def spend(self, run: str, entry: RunEntry, number: int, ceiling: Ceiling | None) -> None:
        """Add a round before its reply is computed; raise an error if it exceeds the ceiling."""
        with self.locked():
            runs = self.runs()
            known = runs.get(run, entry)
            if known.model_copy(update={"rounds": ()}) != entry:
                raise RametError(
                    f"the terms of run {run} have changed since its first round, in which this "
                    "site's noise was chosen. Start a new run."
                )
            if number in known.rounds[:-1]:
                raise RametError(
                    f"this site has already answered round {number} of run {run}, and no longer "
                    "has its reply. Start a new run."
                )
            if number in known.rounds:  # a crash: its reply was not finished
                return
            runs[run] = known.model_copy(update={"rounds": (*known.rounds, number)})
            if ceiling is not None:
                check_ceiling(runs, ceiling)
            facts = {name: one.model_dump() for name, one in runs.items()}
            content = json.dumps({"version": _VERSION, "runs": facts}, indent=1)
            write_atomically(self.path, content.encode())

    def spent(self, unit: Unit, delta: float) -> float:
        """ε of everything that was sent so far, for a unit; see `uncounted`."""
        used = _used(self.runs(), unit)
        return spent_epsilon(used, delta) if used else 0.0

    def uncounted(self, unit: Unit) -> int:
        """The number of runs with noise for another unit, which bound nothing for this one."""
        runs = self.runs().values()
        return sum(bool(entry.rounds) and not _covers(entry.unit, unit) for entry in runs)


def check_ceiling(runs: dict[str, RunEntry], ceiling: Ceiling) -> None:
    """Refuse what exceeds the ceiling, over all runs; other data may have the same graphs."""
    used = _used(runs, ceiling.unit)
    if any(entry.rounds and not _covers(entry.unit, ceiling.unit) for entry in runs.values()):
        raise PolicyError(
            f"`privacy`: this site has taken part in runs with noise for another unit, for which "
            f"no ε per {ceiling.unit} can be stated. Its policy cannot have this ceiling."
        )
    spent = excess_epsilon(used, ceiling.epsilon, ceiling.delta)
    if spent is not None:
        raise PolicyError(
            f"`privacy`: with this round, the site would have spent ε = {spent:.4g} at δ = "
            f"{ceiling.delta:g} per {ceiling.unit}, but its policy allows {ceiling.epsilon:g}."
        )


def _used(runs: dict[str, RunEntry], unit: Unit) -> list[tuple[Mechanism, int]]:
    """The mechanisms of all runs, and for how many rounds each was used."""
    rounds: Counter[Mechanism] = Counter()
    for entry in runs.values():
        if entry.rounds and _covers(entry.unit, unit):
            rounds[entry.mechanism] += len(entry.rounds)
    return sorted(rounds.items(), key=str)


def _covers(protected: Unit, unit: Unit) -> bool:
    """Whether noise for one unit bounds what is told of another: all others are part of a site."""
    return protected in (unit, "site")
