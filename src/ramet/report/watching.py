"""What is known of a run while it goes on, from the files in its folder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from statistics import fmean

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from ramet.experiment import RunFolder
from ramet.metrics import Record
from ramet.report.plain_table import plain_table
from ramet.report.text import size
from ramet.scale import Scale

_BARS = "▁▂▃▄▅▆▇█"
_CURVE, _RECENT = 30, 5
"""How many rounds a curve has, and over how many of them the time of a round is a mean."""


@dataclass(frozen=True)
class Watched:
    """A run as it stands."""

    folder: RunFolder
    records: Sequence[Record]
    is_finished: bool

    @staticmethod
    def of(path: Path) -> Watched:
        folder = RunFolder.open(_run_in(path.absolute()))
        return Watched(folder, folder.records(), folder.summary() is not None)

    def view(self) -> RenderableType:
        """The state of the run, and a row for each client."""
        settings = self.folder.experiment().settings
        done, rounds = len(self.records), settings.rounds
        lines = [f"{settings.label} on {settings.shown_setting}, round {done} of {rounds}"]
        lines += self._facts()
        if settings.budget is not None:
            budget = settings.budget
            lines.append(f"privacy: at most ε = {budget.epsilon:g} in all {rounds} rounds")
        bar = ProgressBar(total=rounds, completed=done, width=60)
        return Group(*map(Text, lines), bar, Text(), self._table())

    def _facts(self) -> Iterator[str]:
        if not self.records:
            yield "no round is done yet"
            return
        last, seconds = self.records[-1], [record.seconds for record in self.records]
        took = timedelta(seconds=round(sum(seconds)))
        state = f"{took} so far"
        if self.is_finished:
            state = f"finished after {took}"
        else:
            left = (last.rounds - last.round) * fmean(seconds[-_RECENT:])
            state += f", about {timedelta(seconds=round(left))} left"
        up, down = (sum(getattr(r, f"bytes_{way}") for r in self.records) for way in ("up", "down"))
        yield f"{state}; {size(up)} up, {size(down)} down"
        yield f"validation {last.shown('val')}, test {last.shown('test')}"

    def _table(self) -> Table:
        table = plain_table("")
        for head in ("client", "validation", "test", f"last {_CURVE} rounds", "last reply", ""):
            table.add_column(head)
        scale = Scale(unit=self.records[-1].unit) if self.records else Scale()
        for client in self.folder.experiment().clients:
            scores = [r.evaluated.get(client, {}) for r in self.records]
            known = [one for one in scores if one]
            replied = [r.round for r in self.records if client in r.trained]
            missing = self.records[-1].failed.get(client, "") if self.records else ""
            shown = (scale.shown(known[-1].get(part)) if known else "–" for part in ("val", "test"))
            curve = sparkline([one["val"] for one in known if "val" in one][-_CURVE:])
            last = f"round {replied[-1]}" if replied else "–"
            table.add_row(Text(client), *shown, curve, last, Text(missing))
        return table


def sparkline(values: Sequence[float]) -> str:
    """A curve in one line, from its smallest to its largest value."""
    if not values:
        return ""
    low, high = min(values), max(values)
    steps = (len(_BARS) - 1) / (high - low) if high > low else 0.0
    return "".join(_BARS[round((value - low) * steps)] for value in values)


def _run_in(path: Path) -> Path:
    """The run itself, or the newest in the folder of a coordinator."""
    runs = [one for one in (path / "runs").glob("*") if RunFolder(one).started]
    return max(runs, key=lambda one: one.name) if runs else path
