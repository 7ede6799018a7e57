"""Sweeps: every method with every seed and split, in parallel, each run in its own process.

A sweep's folder contains one run folder per method, seed and split. Rerun a sweep to continue it:
finished runs are read and stopped ones are resumed, so a crash costs each run one round at most.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from multiprocessing import active_children, get_context, parent_process
from pathlib import Path
from statistics import fmean
from threading import Thread
from typing import TypeAlias

from ramet.engine.cores import available_cores
from ramet.errors import RametError
from ramet.experiment import (
    SPLIT_SEED,
    Experiment,
    MethodSpec,
    RunFolder,
    RunSettings,
    checked_settings,
    default_data,
)
from ramet.experiment.named import NamedParts
from ramet.methods import PAPER_NAMES
from ramet.partition.own import SITES
from ramet.runs import resume, start
from ramet.studies.choice import check_metrics
from ramet.studies.comparison import standings
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns

_PAUSE = 0.5
_WIDTH, _WIDEST = "hidden", 4096
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
    rounds: int | None = None
    data: Path | None = None
    options: dict[str, str] = field(default_factory=dict)
    """For all methods, and for the setting."""
    network: str | None = None
    """For methods that set none and bring none."""
    activation: str | None = None
    """For methods that do not set their own."""
    merge: str | None = None
    """For methods that do not set their own."""
    release: str | None = None
    """For methods that do not set their own."""
    metric: str | None = None
    secure: bool = False
    dp: str | None = None
    """The budget of differential privacy of each run."""
    split_seed: int = SPLIT_SEED
    splits: int = 1
    """The number of splits, with consecutive split seeds."""
    kept: tuple[FinishedRun, ...] = ()
    """Runs that finished elsewhere and are not repeated."""

    @property
    def draws(self) -> list[Draw]:
        """All seeds with all splits."""
        splits = range(self.split_seed, self.split_seed + self.splits)
        return [Draw(split, seed) for seed in self.seeds for split in splits]

    def pairs(self) -> Iterator[tuple[MethodSpec, Draw]]:
        """All runs, ordered by seed and split, so that an early stop leaves whole comparisons."""
        return ((method, draw) for draw in self.draws for method in self.methods)

    def run_folder(self, method: MethodSpec, draw: Draw) -> RunFolder:
        split = "" if draw.split_seed == self.split_seed else f"-split{draw.split_seed}"
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
        for method, draw in self.pairs():
            settings, folder = self.settings(method, draw), self.run_folder(method, draw)
            if folder.started:
                folder.check_same(settings)
            kept = self._kept(method, draw)
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
        return sum(self.settings(method, draw).rounds for method, draw in self.pairs())

    def execute(self, jobs: int, observe: Observer) -> dict[str, str]:
        """Execute the missing runs, ``jobs`` at a time, and return the reason for each failed one.

        The runs share the cores of this machine among them.
        """
        cores = available_cores(jobs)
        failed: dict[str, str] = {}
        missing = (pair for pair in self.pairs() if not self._finished(*pair))
        active: dict[Future[None], str] = {}
        spawn = get_context("spawn")
        with (
            ProcessPoolExecutor(
                jobs, mp_context=spawn, max_tasks_per_child=1, initializer=_end_with_parent
            ) as pool,
            _terminating_on_ctrl_c(),
        ):
            while True:
                for method, draw in islice(missing, jobs - len(active)):
                    settings, path = self.settings(method, draw), self.run_folder(method, draw).path
                    active[pool.submit(run_or_resume, settings, path, cores)] = path.name
                if not active:
                    return failed
                done, _ = wait(active, timeout=_PAUSE, return_when=FIRST_COMPLETED)
                for future in done:
                    name = active.pop(future)
                    error = future.exception()
                    if error is not None:
                        failed[name] = str(error)
                observe(*self._progress(), len(failed))

    def finished(self) -> FinishedRuns:
        """Finished runs, by method and draw."""
        by_label: dict[str, dict[Draw, FinishedRun]] = {str(method): {} for method in self.methods}
        for method, draw in self.pairs():
            run = FinishedRun.of(self.run_folder(method, draw)) or self._kept(method, draw)
            if run is not None:
                by_label[str(method)][draw] = run
        return by_label

    def winner(self) -> MethodSpec:
        """The method with the best mean test score."""
        best = max(standings(self.finished()), key=lambda standing: standing.test)
        return MethodSpec.parse(best.label)

    def scalars(self, method: MethodSpec) -> float:
        """The size of a client's model, mean over clients."""
        return fmean(self.experiment(method).sizes.scalars().values())

    def experiment(self, method: MethodSpec) -> Experiment:
        """The method's run on the first seed and split."""
        return Experiment(self.settings(method, self.draws[0]))

    def matched(self, winner: MethodSpec) -> Sweep:
        """This sweep plus a copy of every smaller method, widened to the winner's size."""
        target = self.scalars(winner)
        wider = (
            self._widened(method, target)
            for method in self.methods
            if self.scalars(method) < target
        )
        return replace(self, methods=(*self.methods, *filter(None, wider)))

    def _widened(self, method: MethodSpec, target: float) -> MethodSpec | None:
        """The method with the `hidden` width whose size is nearest to the target.

        None if the method has no such option. A model's size grows with its width, so bisection
        finds it.
        """
        known = NamedParts.of(self.settings(method, self.draws[0])).defaults()
        if _WIDTH not in known:
            return None
        narrow, wide = int(method.options.get(_WIDTH, known[_WIDTH])), _WIDEST
        while wide - narrow > 1:
            middle = (narrow + wide) // 2
            if self.scalars(method.with_option(_WIDTH, middle)) <= target:
                narrow = middle
            else:
                wide = middle
        candidates = [method.with_option(_WIDTH, width) for width in (narrow, wide)]
        return min(candidates, key=lambda candidate: abs(self.scalars(candidate) - target))

    def settings(self, method: MethodSpec, draw: Draw) -> RunSettings:
        whole = self._completed(method)
        return checked_settings(
            method=whole.method,
            setting=self.setting,
            rounds=self.rounds,
            seed=draw.seed,
            data=(self.data or default_data()).absolute(),
            options=whole.options,
            network=whole.network,
            share=whole.share,
            activation=whole.activation,
            merge=whole.merge,
            release=whole.release,
            metric=self.metric,
            secure=self.secure,
            dp=self.dp,
            split_seed=draw.split_seed,
        )

    def _completed(self, method: MethodSpec) -> MethodSpec:
        """The method with the options and rules of the sweep added."""
        return replace(
            method,
            options={**self.options, **method.options},
            network=method.network or self._network_for(method),
            activation=method.activation or self.activation,
            merge=method.merge or self.merge,
            release=method.release or self.release,
        )

    def _network_for(self, method: MethodSpec) -> str | None:
        """The sweep's network, unless the method has its own."""
        if self.network is None or method.method in PAPER_NAMES:
            return None
        data = self.data or default_data()
        parts = NamedParts(method.method, self.setting, None, method.options, data)
        return self.network if parts.bare_method.model is None else None

    def _progress(self) -> tuple[int, int]:
        rounds, finished = 0, 0
        for method, draw in self.pairs():
            kept = self._kept(method, draw)
            done = self.run_folder(method, draw).rounds_done()
            rounds += max(done, len(kept.rounds) if kept else 0)
            finished += self._finished(method, draw)
        return rounds, finished

    def _finished(self, method: MethodSpec, draw: Draw) -> bool:
        in_folder = self.run_folder(method, draw).summary() is not None
        return in_folder or self._kept(method, draw) is not None

    def _kept(self, method: MethodSpec, draw: Draw) -> FinishedRun | None:
        whole = self._completed(method)
        options = {key: value for key, value in whole.options.items() if key != SITES}
        label = str(replace(whole, options=options).seen_from_here())
        return self._kept_by_label.get((label, draw))

    @cached_property
    def _kept_by_label(self) -> dict[tuple[str, Draw], FinishedRun]:
        return {(run.label, run.draw): run for run in self.kept}


def _end_with_parent() -> None:
    """End this process when the sweep's is killed; otherwise the run would go on without it."""
    parent = parent_process()
    assert parent is not None

    def end() -> None:
        parent.join()
        os._exit(1)

    Thread(target=end, daemon=True).start()


@contextmanager
def _terminating_on_ctrl_c() -> Iterator[None]:
    """Terminate the active runs on Ctrl-C. Their finished rounds are on disk."""
    others = active_children()
    try:
        yield
    except KeyboardInterrupt as stop:
        for process in active_children():
            if process not in others:
                process.terminate()
        stop.add_note("stopped. Rerun the same command to continue.")
        raise


def run_or_resume(settings: RunSettings, path: Path, cores: int | None = None) -> None:
    """Start a run, or continue the one in ``path``, on this number of cores (default: all)."""
    if RunFolder(path).started:
        resume(path, cores=cores)
    else:
        start(settings, path, cores=cores)
