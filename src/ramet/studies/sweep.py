"""Sweeps: every method with every seed and split, in parallel, each run in its own process.

A sweep's folder contains one run folder per method, seed and split. Rerun a sweep to continue it:
finished runs are read and stopped ones are resumed, so a crash costs each run one round at most.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

from ramet.computing import check_computing
from ramet.engine.processes.cores import available_cores
from ramet.errors import RametError
from ramet.experiment import (
    Experiment,
    MethodSpec,
    RunFolder,
    RunSettings,
    checked_settings,
    default_data,
)
from ramet.experiment.continuing import check_same
from ramet.experiment.named import NamedParts
from ramet.methods import PAPER_NAMES
from ramet.partition.own import SITES
from ramet.run_options import DEFAULT_COMPUTING, SPLIT_SEED, Computing
from ramet.studies.choice import check_metrics
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns
from ramet.studies.run_process import Work, running

Observer: TypeAlias = Callable[[int, int, int], None]
"""Called regularly with the number of rounds done, runs done and runs failed."""


def parse_seeds(text: str) -> tuple[int, ...]:
    """Parse `1-5`, `1,3,7` or a mix of both."""
    seeds: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            span = range(int(first), int(last if dash else first) + 1)
            if not span:
                raise ValueError(part)
            seeds += span
    except ValueError as error:
        raise RametError(f"'{text}' is not a list of seeds. Write 1-5 or 1,2,3.") from error
    return tuple(dict.fromkeys(seeds))


@dataclass(frozen=True)
class Sweep:
    """The runs of all methods and seeds, and the folder they are in."""

    methods: tuple[MethodSpec, ...]
    setting: str
    seeds: tuple[int, ...]
    folder: Path
    options: Mapping[str, str] = field(default_factory=dict)
    """For all methods, and for the setting."""
    splits: int = 1
    """The number of splits, with consecutive split seeds."""
    given: Mapping[str, Any] = field(default_factory=dict)
    """Options of all runs, as `checked_settings` takes them; what a method sets itself wins."""
    computing: Computing = DEFAULT_COMPUTING
    kept: tuple[FinishedRun, ...] = ()
    """Runs that finished elsewhere and are not repeated."""

    @property
    def draws(self) -> list[Draw]:
        """All seeds with all splits."""
        return [Draw(split, seed) for seed in self.seeds for split in self.split_seeds]

    @property
    def split_seeds(self) -> range:
        first = self.given.get("split_seed", SPLIT_SEED)
        return range(first, first + self.splits)

    def pairs(self) -> Iterator[tuple[MethodSpec, Draw]]:
        """All runs, ordered by seed and split, so that an early stop leaves whole comparisons."""
        return ((method, draw) for draw in self.draws for method in self.methods)

    def run_folder(self, method: MethodSpec, draw: Draw) -> RunFolder:
        split = "" if draw.split_seed == self.split_seeds[0] else f"-split{draw.split_seed}"
        return RunFolder(self.folder / f"{str(method).replace('/', '_')}-seed{draw.seed}{split}")

    def check(self) -> None:
        """Raise errors before any process starts, also if an existing run has other settings."""
        for label, times in Counter(map(str, self.methods)).items():
            if times > 1:
                raise RametError(f"{label} is given {times} times. Give each method once.")
        for label, times in Counter(str(one.seen_from_here()) for one in self.methods).items():
            if times > 1:
                raise RametError(
                    f"{times} methods would be kept as {label}, because their files have the same "
                    "name. Run the command in a folder that contains them, or rename one of them."
                )
        check_computing(self.settings(*next(self.pairs())), self.computing)
        for method, draw in self.pairs():
            settings, folder = self.settings(method, draw), self.run_folder(method, draw)
            if folder.started:
                check_same(folder, settings)
            kept = self.kept_run(method, draw)
            if kept is not None and not kept.matches(settings.command, settings.code):
                raise RametError(
                    f"the kept result of {method}, seed {draw.seed}, is from another run "
                    f"(`{kept.command}`), or its method has changed since. Give another folder "
                    "with --keep."
                )
        check_metrics(
            (str(method), self.experiment(method).method.task.metric) for method in self.methods
        )

    def total_rounds(self) -> int:
        return sum(self._planned_rounds)

    @cached_property
    def _planned_rounds(self) -> list[int]:
        """The rounds of each run; those with patience may need fewer."""
        return [self.settings(method, draw).rounds for method, draw in self.pairs()]

    def work(self, method: MethodSpec, draw: Draw, cores: int | None = None) -> Work:
        """A run, and how it is computed; ``cores`` limits the default number of workers."""
        path = self.run_folder(method, draw).path
        return Work(self.settings(method, draw), path, replace(self.computing, cores=cores))

    def execute(self, jobs: int, observe: Observer) -> dict[str, str]:
        """Execute the missing runs, ``jobs`` at a time, and return the reason for each failed one.

        The runs share the cores of this machine among them.
        """
        cores = available_cores(jobs)
        missing = (self.work(*pair, cores) for pair in self.pairs() if not self._finished(*pair))
        failed: dict[str, str] = {}
        with running(self.computing.track) as active:
            while True:
                for work in islice(missing, jobs - len(active)):
                    active.start(work)
                if not active:
                    return failed
                failed |= active.failed_since()
                observe(*self._progress(), len(failed))

    def finished(self) -> FinishedRuns:
        """Finished runs, by method and draw."""
        by_label: dict[str, dict[Draw, FinishedRun]] = {str(method): {} for method in self.methods}
        for method, draw in self.pairs():
            run = FinishedRun.of(self.run_folder(method, draw)) or self.kept_run(method, draw)
            if run is not None:
                by_label[str(method)][draw] = run
        return by_label

    def experiment(self, method: MethodSpec) -> Experiment:
        """The method's run on the first seed and split."""
        return Experiment(self.settings(method, self.draws[0]))

    def settings(self, method: MethodSpec, draw: Draw) -> RunSettings:
        """The settings of a run; those that all draws have in common are checked once."""
        drawn = {"seed": draw.seed, "split_seed": draw.split_seed}
        label = str(method)
        if label not in self._checked:
            given = {**self.given, **vars(self._completed(method)), "setting": self.setting}
            self._checked[label] = checked_settings(**{**given, **drawn})
        return RunSettings.model_validate({**dict(self._checked[label]), **drawn})

    @cached_property
    def _checked(self) -> dict[str, RunSettings]:
        return {}

    def _completed(self, method: MethodSpec) -> MethodSpec:
        """The method with the options and rules of the sweep added."""
        rules = ("share", "activation", "merge", "release")
        common: dict[str, Any] = {
            rule: self.given.get(rule) for rule in rules if getattr(method, rule) is None
        }
        return replace(
            method,
            options={**self.options, **method.options},
            network=method.network or self._network_for(method),
            **common,
        )

    def _network_for(self, method: MethodSpec) -> str | None:
        """The sweep's network, unless the method has its own."""
        network: str | None = self.given.get("network")
        return network if network is not None and self.takes_network(method) else None

    def takes_network(self, method: MethodSpec) -> bool:
        """Whether the method has no network of its own."""
        if method.method in PAPER_NAMES:
            return False
        data = self.given.get("data") or default_data()
        parts = NamedParts(method.method, self.setting, None, method.options, data)
        return parts.bare_method.model is None

    def _progress(self) -> tuple[int, int]:
        rounds, finished = 0, 0
        for (method, draw), planned in zip(self.pairs(), self._planned_rounds, strict=True):
            is_finished = self._finished(method, draw)
            rounds += planned if is_finished else self.run_folder(method, draw).rounds_done()
            finished += is_finished
        return rounds, finished

    def _finished(self, method: MethodSpec, draw: Draw) -> bool:
        in_folder = self.run_folder(method, draw).summary() is not None
        return in_folder or self.kept_run(method, draw) is not None

    def kept_run(self, method: MethodSpec, draw: Draw) -> FinishedRun | None:
        """The run, if it finished elsewhere."""
        whole = self._completed(method)
        options = {key: value for key, value in whole.options.items() if key != SITES}
        label = str(replace(whole, options=options).seen_from_here())
        return self._kept_by_label.get((label, draw))

    @cached_property
    def _kept_by_label(self) -> dict[tuple[str, Draw], FinishedRun]:
        return {(run.label, run.draw): run for run in self.kept}
