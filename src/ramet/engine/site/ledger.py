"""What a site has spent of its privacy: one file, on disk before a reply leaves.

A round is in the ledger before its training begins. So a crash can only leave a round in it that
nobody received, never the other way round. All rounds of all runs add up.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ramet.engine.site.run_entries import RunEntries
from ramet.errors import RametError
from ramet.policy import Ceiling, PolicyError
from ramet.privacy.accounting import Mechanism, excess_epsilon, spent_epsilon
from ramet.privacy.budget import SENSITIVITY, Unit

NAME = "privacy.json"


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
    discrete: bool = False
    """Whether the noise is in integers, and that of a whole sum."""
    rounds: tuple[int, ...] = ()
    """The rounds that were answered, or about to be."""

    @property
    def mechanism(self) -> Mechanism:
        """What the accountant is given."""
        noise = self.noise / SENSITIVITY[self.unit]
        return Mechanism(noise, self.sampling, self.steps, self.discrete)


@dataclass(frozen=True)
class Ledger:
    """The ledger of a site, or of a client of a simulation."""

    path: Path

    def runs(self) -> dict[str, RunEntry]:
        """The entries by run; an unreadable file is an error, not an empty ledger."""
        return self._entries.read()

    @property
    def _entries(self) -> RunEntries[RunEntry]:
        what = "what it has spent of its privacy"
        return RunEntries(self.path, RunEntry, what, "private run")

    def spend(self, run: str, entry: RunEntry, number: int, ceiling: Ceiling | None) -> None:
        """Add a round before its reply is computed; raise an error if it exceeds the ceiling."""
        with self._entries.locked():
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
            self._entries.write(runs)

    def spent(self, unit: Unit, delta: float) -> float:
        """ε of everything that was sent so far, for a unit; see `uncounted`."""
        used = _used(self.runs(), unit)
        return spent_epsilon(used, delta) if used else 0.0

    def more_runs(self, ceiling: Ceiling, most: int) -> int | None:
        """How many runs like the last one the ceiling allows, up to a number; None after none."""
        runs = self.runs()
        if not any(entry.rounds for entry in runs.values()):
            return None
        *_, last = (entry for entry in runs.values() if entry.rounds)
        for number in range(most):
            runs[f"another {number}"] = last
            if (
                excess_epsilon(_used(runs, ceiling.unit), ceiling.epsilon, ceiling.delta)
                is not None
            ):
                return number
        return most

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
            f"{ceiling.delta:g} per {ceiling.unit} over all its runs, but its policy allows "
            f"{ceiling.epsilon:g}. Its owner can raise `epsilon` in policy.toml."
        )


def _used(runs: dict[str, RunEntry], unit: Unit) -> list[tuple[Mechanism, int]]:
    """The mechanisms of all runs, and for how many rounds each was used."""
    rounds: Counter[Mechanism] = Counter()
    for entry in runs.values():
        if entry.rounds and _covers(entry.unit, unit):
            rounds[entry.mechanism] += len(entry.rounds)
    return sorted(rounds.items(), key=str)


def _covers(protected: Unit, unit: Unit) -> bool:
    """Whether noise for one unit bounds what is revealed about another; "site" covers all."""
    return protected in (unit, "site")
