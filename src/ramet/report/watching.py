"""What is known of a run while it goes on, from files: a run's folder, or a coordinator's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from rich.console import Group, RenderableType
from rich.progress_bar import ProgressBar
from rich.text import Text

from ramet.errors import RametError
from ramet.events import NAME
from ramet.experiment import RunFolder
from ramet.metrics import Record
from ramet.report.page import template
from ramet.report.plain_table import plain_table
from ramet.report.text import plural, size
from ramet.run_progress import RunProgress, last_run, progress
from ramet.scale import Scale

_BARS, _NO_BAR = "▁▂▃▄▅▆▇█", "·"
_CURVE = 30
"""How many rounds a curve has."""
HEADS = ("client", "validation", "test", f"last {_CURVE} rounds", "last reply", "")
_LONG, _SECONDS = 3, 10
"""A round takes long from so many times that, and from so many seconds on."""


class Row(NamedTuple):
    """What is known of a client."""

    client: str
    validation: str
    test: str
    curve: str
    last_reply: str
    missed: str
    is_missing: bool
    """In the last round."""


@dataclass(frozen=True)
class Watched:
    """A run as it stands."""

    folder: RunFolder
    records: Sequence[Record]
    progress: RunProgress
    is_over: bool
    """Whether nothing more is to be seen, because the run has finished, failed or was stopped."""

    @staticmethod
    def of(path: Path) -> Watched:
        """The run in a folder, or the one that a coordinator submitted last."""
        logs = path / "logs"
        if RunFolder(path).started or not logs.exists():
            last: RunProgress | None = progress(RunFolder.open(path.absolute()).path)
        else:
            last = last_run(logs / NAME)
        if last is None:
            raise RametError(
                f"no run was submitted from {path}. A coordinator's starts with `ramet deploy run "
                f"{path}`; what a site knows of runs says `ramet deploy status {path} --watch`."
            )
        folder = RunFolder(last.folder)
        records = folder.records() if folder.started else ()
        is_over = folder.summary() is not None or last.state not in ("submitted", "running")
        return Watched(folder, records, last, is_over)

    @cached_property
    def sentences(self) -> Sequence[str]:
        """The state of the run, without its clients."""
        return [*self._about(), *self._so_far()]

    def view(self) -> RenderableType:
        """For a terminal."""
        lines = map(Text, self.sentences)
        if not self.folder.started:
            return Group(*lines)
        table = plain_table("")
        for head in HEADS:
            table.add_column(head, min_width=min(len(head), _CURVE), no_wrap=bool(head))
        for *cells, is_missing in self.rows:
            table.add_row(*(Text(str(one)) for one in cells), style="red" if is_missing else None)
        bar = ProgressBar(total=self.rounds, completed=self.rounds_done, width=60)
        return Group(*lines, bar, Text(), table)

    def page(self, every: int) -> str:
        """For a browser, which reads the page again after so many seconds."""
        return template("watching.html.j2").render(
            sentences=self.sentences,
            heads=HEADS,
            rows=[*self.rows],
            done=self.rounds_done,
            rounds=self.rounds,
            over=self.is_over,
            every=every,
            now=f"{datetime.now(UTC):%Y-%m-%d %H:%M:%S} UTC",
        )

    def line(self) -> str:
        """For a log."""
        missing = [f"{row.client} {row.missed}" for row in self.rows if row.is_missing]
        return "; ".join([*self.sentences, *missing])

    @property
    def rounds_done(self) -> int:
        return len(self.records)

    @property
    def rounds(self) -> int:
        """Of the whole run; 0 if it has not begun."""
        return self.folder.experiment().settings.rounds if self.folder.started else 0

    @property
    def rows(self) -> Iterator[Row]:
        """What is known of each client."""
        clients = self.folder.experiment().clients if self.folder.started else ()
        return map(self._row, clients)

    def _about(self) -> Iterator[str]:
        if not self.folder.started:
            yield f"run {self.folder.path.name}: {self.progress.state}"
            if self.progress.state == "submitted":
                yield "waiting for its sites"
            if self.progress.reason:
                yield self.progress.reason
            return
        settings, done = self.folder.experiment().settings, self.rounds_done
        name = f"{settings.label} on {settings.shown_setting}"
        yield f"{name}, round {done} of {settings.rounds}"
        if settings.budget is not None:
            epsilon = f"ε = {settings.budget.epsilon:g}"
            yield f"privacy: at most {epsilon} in all {settings.rounds} rounds"

    def _so_far(self) -> Iterator[str]:
        if not self.records:
            if self.folder.started:
                yield "no round is done yet"
            return
        last, seconds = self.records[-1], [record.seconds for record in self.records]
        state = f"{_duration(sum(seconds))} so far"
        if self.is_over:
            ended = "finished" if self.folder.summary() is not None else self.progress.state
            state = f"{ended} after {_duration(sum(seconds))}"
        elif (left := self.progress.seconds_left) is not None:
            state += f", about {_duration(left)} left"
        up, down = (sum(getattr(r, f"bytes_{way}") for r in self.records) for way in ("up", "down"))
        yield f"{state}; {size(up)} up, {size(down)} down"
        known, clients = len(last.evaluated), len(self.folder.experiment().clients)
        of = f" ({known} of {clients} clients)" if 0 < known < clients else ""
        yield f"validation {last.shown('val')}, test {last.shown('test')}{of}"
        if self.progress.reason:
            yield self.progress.reason
        usual = self.progress.usual_seconds
        lasts = self.progress.seconds_in_round(datetime.now(UTC)) or 0.0
        if not self.is_over and usual is not None and lasts > max(_LONG * usual, _SECONDS):
            yield (
                f"round {self.progress.round} has lasted {_duration(lasts)} so far; "
                f"the last ones took {_duration(usual)}"
            )

    def _row(self, client: str) -> Row:
        scores = [record.evaluated.get(client, {}) for record in self.records]
        known = next((one for one in reversed(scores) if one), {})
        form = "{}" if scores and scores[-1] else "({})"
        scale = Scale(unit=self.records[-1].unit) if self.records else Scale()
        val, test = (form.format(scale.shown(known.get(part))) for part in ("val", "test"))
        replied = [record.round for record in self.records if client in record.trained]
        reason = self.records[-1].failed.get(client) if self.records else None
        missed = sum(client in record.failed for record in self.records)
        told = f"missed {plural(missed, 'round')}" if missed else ""
        return Row(
            client=client,
            validation=val if known else "–",
            test=test if known else "–",
            curve=sparkline([one.get("val") for one in scores[-_CURVE:]]),
            last_reply=f"round {replied[-1]}" if replied else "–",
            missed=f"{told}; {reason}" if reason else told,
            is_missing=reason is not None,
        )


def sparkline(values: Sequence[float | None]) -> str:
    """A curve in one line, from its smallest to its largest value, with gaps."""
    known = [value for value in values if value is not None]
    if not known:
        return ""
    low, high = min(known), max(known)
    top = len(_BARS) - 1

    def bar(value: float) -> str:
        return _BARS[round((value - low) / (high - low) * top) if high > low else top // 2]

    return "".join(_NO_BAR if value is None else bar(value) for value in values)


def _duration(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))
