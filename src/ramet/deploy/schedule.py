"""When a consortium trains again by itself, and which new models it accepts."""

from __future__ import annotations

from datetime import date, timedelta
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field


class Gate(BaseModel):
    """Accept a new model only if no site is worse off."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    worse: float = Field(ge=0, allow_inf_nan=False)
    """By how much a site's validation score may be worse, in the unit of the metric: 0.02 of an
    accuracy are two percentage points."""


class Schedule(BaseModel):
    """The table ``[schedule]`` of a consortium's settings."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    every: Literal["week", "month"]
    sites: int | None = Field(None, ge=1)
    """The smallest number of sites that must be online; the others are left out. None for all."""
    new: int | None = Field(None, ge=1)
    """The smallest number of sites that must say that they have new rows. None asks nobody."""
    start: Literal["accepted", "seed"] = "accepted"
    """Start with the models of the accepted run, or anew."""
    gate: Gate | None = None
    """None accepts every run that finishes."""

    def period(self, day: date) -> str:
        """The week or month of a day; one run is due in each."""
        if self.every == "month":
            return f"{day:%Y-%m}"
        year, week, _ = day.isocalendar()
        return f"{year}-W{week:02}"

    @property
    def longest_period(self) -> timedelta:
        return timedelta(days=31 if self.every == "month" else 7)

    def period_before(self, day: date) -> str:
        """The week or month before that of a day."""
        days = day.day if self.every == "month" else 7
        return self.period(day - timedelta(days=days))

    def flaw(
        self, sites: int, needed: int, secure: bool, verified: bool, private: bool, merge: str
    ) -> str | None:
        """What does not go together, and what to do instead; None if all does."""
        if not needed <= (self.sites or sites) <= sites:
            return f"schedule: `sites` must be from the quorum, {needed}, to {sites}"
        if self.new is not None and self.new > sites:
            return f"schedule: `new` must be at most the number of sites, {sites}"
        if self.new is not None and (secure or private):
            return (
                "schedule: whether a site has new rows would leave it without secure sums and "
                "noise. Leave out `new`"
            )
        begins_anew = 'Set start = "seed" under [schedule]'
        if self.start == "accepted" and verified:
            return (
                "schedule: no charter names the models of another run, so a verified run cannot "
                f"start with them. {begins_anew}, without gate"
            )
        if self.start == "accepted" and private:
            return (
                "schedule: what an accepted model has learned is not in the budget of a private "
                f"run, so it cannot start with it. {begins_anew}, without gate"
            )
        if self.gate is None:
            return None
        instead = "Leave out `gate`; each site can compare with `ramet evaluate --against`"
        if self.start == "seed":
            return (
                "schedule: the gate compares a new model with the accepted one that its run starts "
                f'with, which start = "seed" has not. {instead}'
            )
        if secure or merge.startswith("fixed-point"):
            return (
                "schedule: the gate needs each site's score, and of sums the coordinator learns "
                f"means only. {instead}"
            )
        return None
