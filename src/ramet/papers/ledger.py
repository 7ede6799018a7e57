"""The ledger: every printed cell with its status, the runs behind it, and what is left to run."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any, get_args

from ramet.experiment import SPLIT_SEED, MethodSpec
from ramet.experiment.named import PROTOCOL
from ramet.methods import AUTHORS
from ramet.papers.printed import Panel, Printed, PrintedEntry, figures, tables
from ramet.papers.reproduction import FROM_RUNS, Reproduction, cell_from_runs, size_cell
from ramet.papers.wanted import (
    Paper,
    Protocol,
    Runs,
    RunsByFolder,
    Status,
    WantedRuns,
    kept_by_folder,
    papers,
)
from ramet.partition import SETTINGS
from ramet.studies.finished_run import Draw

STATUSES: tuple[Status, ...] = get_args(Status)
MAIN_TABLES = ("feddense table2", "fedstar table2")
_HOUR = 3600
_SIMILAR = {"bio-sm": "cross-sim", "bio-sm-sn": "multi", "bio-sn-cv": "cross-diff"}
"""Settings that differ by one to three small datasets, for estimates of time."""
_REFERENCE = "fedstar"
"""The method that has a run in every such setting."""


@dataclass(frozen=True)
class Entry:
    """One printed cell or curve."""

    table: str
    row: str
    column: str
    status: Status
    seeds: int = 0
    splits: int = 0
    runs: int = 0
    hours: float | None = 0.0
    """Core-hours that are left to run; None if no kept run allows an estimate."""
    splits_to_decide: int | None = 0
    """How many splits an undecided cell would take, and of runs on one split, the fewest that could
    decide it; None if it stays undecided with 50."""
    reason: str = ""
    """Why it is not run or cannot be compared."""


@dataclass(frozen=True)
class Command:
    """A command that adds to the ledger."""

    text: str
    status: Status
    runs: int
    hours: float | None
    setting: str
    in_main_tables: bool
    by_split: Mapping[int, str]
    """Commands that do the same split by split."""


@dataclass(frozen=True)
class Ledger:
    """Everything that the papers print, and what our kept runs say about it."""

    cells: Sequence[Entry]
    queue: Sequence[Command]
    """Most valuable first."""

    def main_cells(self) -> list[Entry]:
        """The cells of the two main tables that have a printed number."""
        return [cell for cell in self.cells if cell.table in MAIN_TABLES and not cell.reason]

    def to_json(self) -> dict[str, Any]:
        return {"cells": [asdict(cell) for cell in self.cells]}


def ledger(results: Path) -> Ledger:
    """Compute the ledger from the kept runs below a folder."""
    runs, known = kept_by_folder(results), papers()
    wanted = list(_wanted(known))
    printed = [one.entry(runs) for one in wanted]
    unmeasured = [
        Entry(cells.table, row, column, cells.status, reason=cells.reason)
        for paper in known.values()
        for cells in paper.cells
        for row in cells.rows
        for column in cells.columns
    ]
    return Ledger(
        cells=sorted([*printed, *unmeasured], key=lambda cell: cell.table),
        queue=_queue(wanted, runs),
    )


@dataclass(frozen=True)
class _Wanted:
    """The runs that a printed cell or curve asks for."""

    printed: PrintedEntry
    table: str
    row: str
    column: str
    label: str
    """Of the kept runs."""
    method: str
    """The method with its options, as `ramet compare` takes it."""
    protocol: Protocol

    def runs(self, runs: RunsByFolder) -> Runs:
        """Kept runs with all rounds."""
        rounds = self.printed.rounds or SETTINGS[self.printed.setting]().rounds
        found = runs.get(self.printed.group, {}).get(self.label, {})
        return {draw: run for draw, run in found.items() if run.summary.rounds == rounds}

    def missing(self, runs: RunsByFolder) -> int:
        """The number of runs up to the protocol's splits, or with one split its seeds."""
        if self.protocol.splits > 1:
            return len(self._missing_splits(runs))
        return max(0, self.protocol.seeds - len({draw.seed for draw in self.runs(runs)}))

    def _missing_splits(self, runs: RunsByFolder) -> list[int]:
        done = {draw.split_seed for draw in self.runs(runs)}
        return sorted({*_split_seeds(self.protocol)} - done)

    def status(self, runs: RunsByFolder) -> Status:
        if isinstance(self.printed, Printed):
            return cell_from_runs(self.printed, self.runs(runs)).status
        return "other data" if self.runs(runs) else "not run"

    def splits_to_decide(self, runs: RunsByFolder) -> int | None:
        if isinstance(self.printed, Printed) and self.status(runs) == "undecided":
            return cell_from_runs(self.printed, self.runs(runs)).splits_to_decide
        return 0

    def entry(self, runs: RunsByFolder) -> Entry:
        if isinstance(self.printed, Printed) and not _is_run(self.printed):
            return Entry(self.table, self.row, self.column, self._computed(self.printed, runs))
        own, missing = self.runs(runs), self.missing(runs)
        return Entry(
            self.table,
            self.row,
            self.column,
            self.status(runs),
            seeds=len({draw.seed for draw in own}),
            splits=len({draw.split_seed for draw in own}),
            runs=len(own),
            hours=_hours(missing, self, runs),
            splits_to_decide=self.splits_to_decide(runs),
            reason=_reason(self.printed),
        )

    def _computed(self, printed: Printed, runs: RunsByFolder) -> Status:
        if printed.shape is None:
            return size_cell(printed, self.runs(runs)).status
        (cell,) = Reproduction([printed], (1,), Path()).reproduced()
        return cell.status

    def command(self, runs: RunsByFolder) -> Command:
        options = [f"--set {key}={value}" for key, value in self.printed.setting_options.items()]
        splits = self.protocol.splits
        seeds = "1" if self.protocol.seeds == 1 else f"1-{self.protocol.seeds}"
        method = shlex.quote(self.method)
        words = ["ramet compare", method, "--setting", self.printed.setting, *options]
        words += [f"--rounds {self.printed.rounds}"] if self.printed.rounds else []
        stem, kept = " ".join([*words, "--seeds", seeds]), f"--keep results/{self.printed.group}"
        text = f"{stem} --splits {splits} {kept}" if splits > 1 else f"{stem} {kept}"
        one_by_one = {
            seed: f"{stem} --split-seed {seed} {kept}" for seed in self._missing_splits(runs)
        }
        missing = self.missing(runs)
        return Command(
            text,
            self.status(runs),
            missing,
            _hours(missing, self, runs),
            setting=self.printed.setting,
            in_main_tables=self.table in MAIN_TABLES,
            by_split=one_by_one if splits > 1 else {SPLIT_SEED: text},
        )


def _split_seeds(protocol: Protocol) -> range:
    return range(SPLIT_SEED, SPLIT_SEED + protocol.splits)


def _needs_runs(cell: Printed) -> bool:
    return cell.kind in FROM_RUNS and cell.shape is None


def _reason(entry: PrintedEntry) -> str:
    assert isinstance(entry, Printed | Panel | WantedRuns)
    return entry.not_comparable


def _wanted(known: Mapping[str, Paper]) -> Iterator[_Wanted]:
    """All printed cells, all curves of printed figures, and runs without a printed number."""
    for table, cells in tables().items():
        for cell in cells:
            column = cell.group if cell.kind == "accuracy" else f"{cell.group} {cell.kind}"
            yield _wanting(cell, table, cell.name, column, cell.label, known)
    for figure, panels in figures().items():
        for panel in panels:
            for curve in panel.curves:
                column = f"{panel.panel}, {panel.lines}"
                yield _wanting(panel, figure, curve, column, curve, known)
    for paper in known.values():
        for runs in paper.runs:
            column = ",".join([runs.group, *runs.setting_options.values()])
            for label in runs.rows:
                one = _wanting(runs, runs.table, label, column, label, known)
                yield replace(one, protocol=Protocol(splits=runs.splits, seeds=runs.seeds))


def _wanting(
    entry: PrintedEntry, table: str, row: str, column: str, label: str, known: Mapping[str, Paper]
) -> _Wanted:
    spec = MethodSpec.parse(label)
    options = {**entry.setting_options, **spec.options}
    kept = MethodSpec(spec.method, options, share=spec.share, activation=spec.activation)
    protocol = known[table.partition(" ")[0]].protocol
    return _Wanted(entry, table, row, column, str(kept), label, protocol)


def _queue(wanted: Sequence[_Wanted], runs: RunsByFolder) -> list[Command]:
    """A command per method and setting that lacks runs: the cheapest first.

    What cannot be compared with print comes last.
    """
    commands: dict[str, tuple[bool, Command]] = {}
    for one in sorted(wanted, key=lambda one: not _reason(one.printed)):  # the comparable ones win
        if _is_run(one.printed) and one.missing(runs):
            command = one.command(runs)
            commands[command.text] = (bool(_reason(one.printed)), command)
    ordered = sorted(
        commands.values(), key=lambda pair: (pair[0], pair[1].hours is None, pair[1].hours or 0.0)
    )
    return [command for _, command in ordered]


def _is_run(entry: PrintedEntry) -> bool:
    return not isinstance(entry, Printed) or _needs_runs(entry)


def _hours(missing: int, wanted: _Wanted, runs: RunsByFolder) -> float | None:
    """Core-hours of the missing runs, from the CPU-seconds of kept ones."""
    if not missing:
        return 0.0
    seconds = _seconds(wanted.printed.group, wanted.label, runs)
    return None if seconds is None else round(missing * seconds / _HOUR, 2)


def _seconds(folder: str, label: str, runs: RunsByFolder) -> float | None:
    """The mean duration of the method's runs in this folder.

    Without any: its duration on `single`, scaled by that of FedStar here and there. None if its
    authors train for longer in a round.
    """
    here = runs.get(folder) or runs.get(_SIMILAR.get(folder, ""), {})
    known = _duration(here.get(label, {}))
    if known is not None or _trains_differently(label):
        return known
    reference, usual = _duration(here.get(_REFERENCE, {})), runs.get("single", {})
    there = _duration(usual.get(_REFERENCE, {}))
    own = _duration(usual.get(label, {})) or there
    if reference is not None and there and own:
        return own * reference / there
    durations = [seconds for found in here.values() if (seconds := _duration(found)) is not None]
    return fmean(durations) if durations else None


def _trains_differently(label: str) -> bool:
    """Whether other runs say nothing about the duration, because batches or epochs differ."""
    spec = MethodSpec.parse(label)
    theirs = AUTHORS.get(spec.method) if spec.options.get(PROTOCOL) == "authors" else None
    changed = {one.option for one in theirs.deviations} if theirs else set()
    return bool(changed & {"epochs", "batch_size"})


def _duration(runs: Mapping[Draw, Any]) -> float | None:
    """Mean CPU-seconds; seconds if the runs are too old to have counted them."""
    summaries = [run.summary for run in runs.values()]
    counted = [one.cpu_seconds for one in summaries if one.cpu_seconds is not None]
    seconds = counted or [one.seconds for one in summaries]
    return fmean(seconds) if seconds else None
