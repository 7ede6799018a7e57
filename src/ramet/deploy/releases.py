"""The log of a consortium's releases, from which everything about them follows.

`releases.jsonl` in the coordinator's folder has a JSON object per line and only grows.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from ramet.errors import RametError, unknown

NAME = "releases.jsonl"


class Entry(BaseModel):
    """What happened to a run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    time: str
    event: Literal["begun", "failed", "accepted", "refused", "rolled back", "told"]
    run: str
    """The name of its folder in `runs`; of a roll-back, that of the run which counts again."""
    period: str = ""
    sites: tuple[str, ...] = ()
    """The sites of a run that begins, or that were told which run counts."""
    start_from: str = ""
    """The accepted run that this one starts from, if any."""
    reason: str = ""
    scores: dict[str, tuple[float, float]] = {}
    """By site: the validation scores of the accepted model and of the new one, on the same rows."""


@dataclass(frozen=True)
class Releases:
    """The log as it was read."""

    path: Path
    entries: Sequence[Entry]

    @staticmethod
    def read(folder: Path) -> Releases:
        """Read the log of a coordinator; a line that a crash cut short does not count."""
        path = folder / NAME
        complete = path.read_text().rpartition("\n")[0] if path.exists() else ""
        try:
            entries = [Entry.model_validate_json(line) for line in complete.splitlines()]
        except ValidationError as error:
            raise RametError(f"{path} is damaged. Restore it from a backup.") from error
        return Releases(path, entries)

    def having(self, **facts: object) -> Releases:
        """Append an entry, on disk first."""
        now = datetime.now(UTC).isoformat(timespec="seconds")
        entry = Entry.model_validate({"time": now, **facts})
        self._cut()
        with self.path.open("a") as file:
            file.write(entry.model_dump_json(exclude_defaults=True) + "\n")
            file.flush()
            os.fsync(file.fileno())
        return Releases(self.path, [*self.entries, entry])

    def _cut(self) -> None:
        """Drop the rest of a line that a crash cut short."""
        if not self.path.exists() or self.path.read_bytes().endswith(b"\n"):
            return
        with self.path.open("r+b") as file:
            file.truncate(self.path.read_bytes().rfind(b"\n") + 1)

    @property
    def _counted(self) -> list[int]:
        """Where the log says which run counts."""
        counting = ("accepted", "rolled back")
        return [number for number, one in enumerate(self.entries) if one.event in counting]

    @property
    def accepted(self) -> list[str]:
        """The runs that were accepted, in order."""
        return [one.run for one in self.entries if one.event == "accepted"]

    @property
    def last_accepted(self) -> Entry | None:
        """The entry about the run that was accepted last."""
        return next((one for one in reversed(self.entries) if one.event == "accepted"), None)

    @property
    def current(self) -> str | None:
        """The accepted run that counts now."""
        return self.entries[self._counted[-1]].run if self._counted else None

    def before(self) -> str:
        """The accepted run before the one that counts now."""
        if self.current is None or self.accepted.index(self.current) == 0:
            raise RametError("no other run was accepted before, so there is nothing to go back to.")
        return self.accepted[self.accepted.index(self.current) - 1]

    def check_accepted(self, run: str) -> str:
        if run not in self.accepted:
            raise unknown("accepted run", run, self.accepted)
        return run

    def of(self, period: str) -> list[Entry]:
        return [one for one in self.entries if one.period == period]

    def is_done(self, period: str) -> bool:
        return any(one.event in ("accepted", "refused") for one in self.of(period))

    def lateness(self, period: str, before: str) -> str | None:
        """What to say if neither a period nor the one before has an accepted run."""
        tried = [one.period for one in self.entries if one.period]
        accepted = {one.period for one in self.entries if one.event == "accepted"}
        if not tried or tried[0] == period or accepted & {period, before}:
            return None
        last = self.last_accepted
        which = f"the last one is {last.run}, of {last.time[:10]}" if last else "none ever was"
        return f"no run was accepted in {before} and, so far, in {period}: {which}"

    def begun(self, period: str) -> Entry | None:
        """The last run that was begun in a period."""
        return next((one for one in reversed(self.of(period)) if one.event == "begun"), None)

    def failures(self, run: str) -> list[Entry]:
        return [one for one in self.entries if one.run == run and one.event == "failed"]

    def sites_of(self, run: str) -> tuple[str, ...]:
        """The sites that took part in a run."""
        return next(one.sites for one in self.entries if one.run == run and one.event == "begun")

    def untold(self) -> list[str]:
        """The sites of the run that counts which have not been told so."""
        if self.current is None:
            return []
        since = self.entries[self._counted[-1] :]
        told = {site for one in since if one.event == "told" for site in one.sites}
        return [site for site in self.sites_of(self.current) if site not in told]

    def new_name(self, period: str) -> str:
        """A name for a folder that no run has."""
        number = sum(one.event == "begun" for one in self.of(period)) + 1
        return period if number == 1 else f"{period}-{number}"
