"""Many runs side by side: every method with every seed, each in a process and folder of its own.

A sweep's folder holds one run folder per method and seed. Rerun a sweep to continue it: finished
runs are read and stopped ones resumed, so a crash costs one round of one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from multiprocessing import active_children, get_context
from pathlib import Path
from statistics import fmean
from typing import TypeAlias

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
from ramet.experiment.named import method_factory
from ramet.options import arguments
from ramet.partition.own import SITES
from ramet.runs import resume, start
from ramet.studies.comparison import standings
from ramet.studies.finished_run import FinishedRun, FinishedRuns

_PAUSE = 0.5
_WIDTH, _WIDEST = "hidden", 4096
Observer: TypeAlias = Callable[[int, int, int], None]
"""Called now and then with the rounds done, runs done and runs failed."""


def parse_seeds(text: str) -> tuple[int, ...]:
    """`1-5`, `1,3,7` or a mix."""
    seeds: list[int] = []
    try:
        for part in text.split(","):
            first, dash, last = part.partition("-")
            named = range(int(first), int(last if dash else first) + 1)
            if not named:
                raise ValueError(part)
            seeds += named
    except ValueError as error:
        raise RametError(f"'{text}' names no seeds. Write 1-5 or 1,2,3.") from error
    return tuple(dict.fromkeys(seeds))


@dataclass(frozen=True)
class Sweep:
    """Which runs there are, and where their folders are."""

    methods: tuple[MethodSpec, ...]
    setting: str
    seeds: tuple[int, ...]
    folder: Path
    rounds: int | None = None
    data: Path | None = None
    options: dict[str, str] = field(default_factory=dict)
    """For all methods, and for the setting."""
    activation: str | None = None
    """For the methods that name none themselves."""
    merge: str | None = None
    """For the methods that name none themselves."""
    split_seed: int = SPLIT_SEED
    kept: tuple[FinishedRun, ...] = ()
    """Runs that were finished elsewhere and need not be repeated."""

    def pairs(self) -> Iterator[tuple[MethodSpec, int]]:
        """Seed by seed, so that an early stop leaves whole comparisons."""
        return ((method, seed) for seed in self.seeds for method in self.methods)

    def run_folder(self, method: MethodSpec, seed: int) -> RunFolder:
        return RunFolder(self.folder / f"{str(method).replace('/', '_')}-seed{seed}")

    def check(self) -> None:
        """Complain before any process is started, also about runs with other settings."""
        for label, times in Counter(map(str, self.methods)).items():
            if times > 1:
                raise RametError(f"{label} is named {times} times. Name each method once.")
        for method, seed in self.pairs():
            settings, folder = self.settings(method, seed), self.run_folder(method, seed)
            if folder.started:
                folder.check_same(settings)
            kept = self._kept(method, seed)
            if kept is not None and not kept.is_of(settings.command, settings.code):
                raise RametError(
                    f"the kept result of {method}, seed {seed}, is of another run "
                    f"(`{kept.command}`) or of a method that has changed since. Give another "
                    "folder with --keep."
                )

    def total_rounds(self) -> int:
        return sum(self.settings(method, seed).rounds for method, seed in self.pairs())

    def execute(self, jobs: int, observe: Observer) -> dict[str, str]:
        """Do what is missing, ``jobs`` runs at a time; returns why runs failed, by run."""
        failed: dict[str, str] = {}
        missing = (pair for pair in self.pairs() if not self._finished(*pair))
        under_way: dict[Future[None], str] = {}
        spawn = get_context("spawn")
        with ProcessPoolExecutor(jobs, mp_context=spawn, max_tasks_per_child=1) as pool, _at_once():
            while True:
                for method, seed in islice(missing, jobs - len(under_way)):
                    settings, path = self.settings(method, seed), self.run_folder(method, seed).path
                    under_way[pool.submit(_run_or_resume, settings, path)] = f"{method} seed {seed}"
                if not under_way:
                    return failed
                done, _ = wait(under_way, timeout=_PAUSE, return_when=FIRST_COMPLETED)
                for future in done:
                    name = under_way.pop(future)
                    error = future.exception()
                    if error is not None:
                        failed[name] = str(error)
                observe(*self._progress(), len(failed))

    def finished(self) -> FinishedRuns:
        """Finished runs, by method and seed."""
        found: dict[str, dict[int, FinishedRun]] = {str(method): {} for method in self.methods}
        for method, seed in self.pairs():
            run = FinishedRun.of(self.run_folder(method, seed)) or self._kept(method, seed)
            if run is not None:
                found[str(method)][seed] = run
        return found

    def winner(self) -> MethodSpec:
        """The method with the best mean test score."""
        best = max(standings(self.finished()), key=lambda standing: standing.test)
        return MethodSpec.parse(best.label)

    def scalars(self, method: MethodSpec) -> float:
        """The size of a client's model, mean over the clients."""
        settings = self.settings(method, self.seeds[0])
        return fmean(Experiment(settings).sizes.scalars().values())

    def matched(self, winner: MethodSpec) -> Sweep:
        """This sweep with every smaller method once more, widened to the winner's size."""
        target = self.scalars(winner)
        wider = (
            self._widened(method, target)
            for method in self.methods
            if self.scalars(method) < target
        )
        return replace(self, methods=(*self.methods, *filter(None, wider)))

    def _widened(self, method: MethodSpec, target: float) -> MethodSpec | None:
        """With the `hidden` width whose size is nearest to the target; None without such a width.

        A model's size grows with its width, so bisection finds it.
        """
        known = arguments(method_factory(method.method))
        if _WIDTH not in known:
            return None
        narrow, wide = int(method.options.get(_WIDTH, known[_WIDTH])), _WIDEST
        while wide - narrow > 1:
            middle = (narrow + wide) // 2
            if self.scalars(method.with_option(_WIDTH, middle)) <= target:
                narrow = middle
            else:
                wide = middle
        around = [method.with_option(_WIDTH, width) for width in (narrow, wide)]
        return min(around, key=lambda candidate: abs(self.scalars(candidate) - target))

    def settings(self, method: MethodSpec, seed: int) -> RunSettings:
        whole = self._completed(method)
        return checked_settings(
            method=whole.method,
            setting=self.setting,
            rounds=self.rounds,
            seed=seed,
            data=(self.data or default_data()).absolute(),
            options=whole.options,
            share=whole.share,
            activation=whole.activation,
            merge=whole.merge,
            split_seed=self.split_seed,
        )

    def _completed(self, method: MethodSpec) -> MethodSpec:
        """The method with what the sweep gives to all."""
        return replace(
            method,
            options={**self.options, **method.options},
            activation=method.activation or self.activation,
            merge=method.merge or self.merge,
        )

    def _progress(self) -> tuple[int, int]:
        rounds, finished = 0, 0
        for method, seed in self.pairs():
            kept = self._kept(method, seed)
            done = self.run_folder(method, seed).rounds_done()
            rounds += max(done, len(kept.rounds) if kept else 0)
            finished += self._finished(method, seed)
        return rounds, finished

    def _finished(self, method: MethodSpec, seed: int) -> bool:
        here = self.run_folder(method, seed).summary() is not None
        return here or self._kept(method, seed) is not None

    def _kept(self, method: MethodSpec, seed: int) -> FinishedRun | None:
        whole = self._completed(method)
        options = {key: value for key, value in whole.options.items() if key != SITES}
        label = str(replace(whole, options=options).without_folders())
        return self._kept_by_label.get((label, seed))

    @cached_property
    def _kept_by_label(self) -> dict[tuple[str, int], FinishedRun]:
        """Only those of this sweep's split."""
        alike = (run for run in self.kept if run.split_seed == self.split_seed)
        return {(run.label, run.seed): run for run in alike}


@contextmanager
def _at_once() -> Iterator[None]:
    """Ctrl-C ends the runs that are under way at once; everything they did is on disk."""
    others = active_children()
    try:
        yield
    except KeyboardInterrupt as stop:
        for process in active_children():
            if process not in others:
                process.terminate()
        stop.add_note("stopped. Rerun the same command to continue.")
        raise


def _run_or_resume(settings: RunSettings, path: Path) -> None:
    if RunFolder(path).started:
        resume(path)
    else:
        start(settings, path)
