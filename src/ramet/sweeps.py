"""Many runs side by side: every method with every seed, each in a process and folder of its own.

A sweep's folder holds one run folder per method and seed. Doing the sweep again does what is
missing: finished runs are read, stopped ones are resumed, so a crash costs one round of one run.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from multiprocessing import active_children, get_context
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from ramet.archive import story
from ramet.errors import RametError
from ramet.experiment import (
    SPLIT_SEED,
    Experiment,
    RunSettings,
    checked_settings,
    default_data,
    method_factory,
    written,
)
from ramet.metrics import Stories, Story, standings
from ramet.options import arguments
from ramet.run_folder import RunFolder
from ramet.runs import resume, run

_PAUSE = 0.5
_WIDTH, _WIDEST = "hidden", 4096
_ACTIVATION, _MERGE = ",activation=", ",merge="
Watcher: TypeAlias = Callable[[int, int, int], None]
"""Told now and then: rounds done, runs done, runs failed."""


@dataclass(frozen=True)
class Contender:
    """A method with options of its own, written `feddense,width=16`.

    What stands behind `activation=` is the activation's: `feddense,activation=restart,alpha=0.3`;
    what stands behind `merge=` before it is the merging's: `fedstar,merge=trimmed-mean,share=0.3`.
    """

    label: str
    method: str
    options: dict[str, str]
    activation: str | None = None
    merge: str | None = None

    @staticmethod
    def parse(text: str) -> Contender:
        before, _, activation = text.partition(_ACTIVATION)
        own, _, merge = before.partition(_MERGE)
        method, *pairs = own.split(",")
        for pair in pairs:
            if "=" not in pair:
                raise RametError(f"'{text}' is not METHOD,KEY=VALUE. Example: feddense,width=16.")
        options = dict(pair.split("=", 1) for pair in pairs)
        return Contender(text, method, options, activation or None, merge or None)

    def with_option(self, key: str, value: object) -> Contender:
        options = {**self.options, key: str(value)}
        changed = ",".join([self.method, *(f"{k}={v}" for k, v in options.items())])
        changed += _MERGE + self.merge if self.merge else ""
        return Contender.parse(changed + (_ACTIVATION + self.activation if self.activation else ""))


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
    """Which runs there are and where they lie."""

    contenders: tuple[Contender, ...]
    setting: str
    seeds: tuple[int, ...]
    folder: Path
    rounds: int | None = None
    data: Path | None = None
    options: dict[str, str] = field(default_factory=dict)
    activation: str | None = None
    merge: str | None = None
    """Of the contenders that have none of their own, as the activation."""
    split_seed: int = SPLIT_SEED
    kept: Stories = field(default_factory=dict)
    """Runs that were finished elsewhere; they need not be done again."""

    def runs(self) -> Iterator[tuple[Contender, int]]:
        """Seed by seed, so that an early stop leaves whole comparisons."""
        return ((contender, seed) for seed in self.seeds for contender in self.contenders)

    def run_folder(self, contender: Contender, seed: int) -> RunFolder:
        return RunFolder(self.folder / f"{contender.label.replace('/', '_')}-seed{seed}")

    def check(self) -> None:
        """Complain before any process is started, also about runs made with other settings."""
        for label, times in Counter(contender.label for contender in self.contenders).items():
            if times > 1:
                raise RametError(f"{label} is named {times} times. Name each method once.")
        for contender, seed in self.runs():
            settings, folder = self._settings(contender, seed), self.run_folder(contender, seed)
            if folder.started:
                folder.check_same(settings)
            kept = self._kept(contender, seed)
            if kept is not None and not kept.is_of(settings.command, settings.code):
                raise RametError(
                    f"the kept result of {contender.label}, seed {seed}, is of another run "
                    f"(`{kept.command}`) or of a method that has changed since. Give another "
                    "folder with --keep."
                )

    def total_rounds(self) -> int:
        return sum(self._settings(contender, seed).rounds for contender, seed in self.runs())

    def execute(self, jobs: int, watch: Watcher) -> dict[str, str]:
        """Do what is missing, ``jobs`` runs at a time; the reasons of runs that failed."""
        failed: dict[str, str] = {}
        missing = (pair for pair in self.runs() if not self._finished(*pair))
        under_way: dict[Future[None], str] = {}
        spawn = get_context("spawn")
        with ProcessPoolExecutor(jobs, mp_context=spawn, max_tasks_per_child=1) as pool, _at_once():
            while True:
                for contender, seed in islice(missing, jobs - len(under_way)):
                    started = pool.submit(_do, replace(self, kept={}), contender, seed)
                    under_way[started] = f"{contender.label} seed {seed}"
                if not under_way:
                    return failed
                done, _ = wait(under_way, timeout=_PAUSE, return_when=FIRST_COMPLETED)
                for future in done:
                    name = under_way.pop(future)
                    error = future.exception()
                    if error is not None:
                        failed[name] = str(error)
                watch(*self._progress(), len(failed))

    def stories(self) -> Stories:
        """Finished runs in short, by contender and seed."""
        told: dict[str, dict[int, Story]] = {c.label: {} for c in self.contenders}
        for contender, seed in self.runs():
            one = story(self.run_folder(contender, seed)) or self._kept(contender, seed)
            if one is not None:
                told[contender.label][seed] = one
        return told

    def winner(self) -> Contender:
        """The method with the best mean test score."""
        best = max(standings(self.stories()), key=lambda standing: standing.test)
        return Contender.parse(best.label)

    def scalars(self, contender: Contender) -> float:
        """The size of a client's model, mean over the clients."""
        settings = self._settings(contender, self.seeds[0])
        return fmean(Experiment(settings).scalars().values())

    def matched(self, winner: Contender) -> Sweep:
        """This sweep with every smaller method once more, widened to the winner's size."""
        target = self.scalars(winner)
        wider = (
            self._widened(contender, target)
            for contender in self.contenders
            if self.scalars(contender) < target
        )
        return replace(self, contenders=(*self.contenders, *filter(None, wider)))

    def _widened(self, contender: Contender, target: float) -> Contender | None:
        """The `hidden` width whose size is nearest to the target; None if there is no such width.

        A model's size grows with its width, so the width is found by halving.
        """
        known = arguments(method_factory(contender.method))
        if _WIDTH not in known:
            return None
        narrow, wide = int(contender.options.get(_WIDTH, known[_WIDTH])), _WIDEST
        while wide - narrow > 1:
            middle = (narrow + wide) // 2
            if self.scalars(contender.with_option(_WIDTH, middle)) <= target:
                narrow = middle
            else:
                wide = middle
        around = [contender.with_option(_WIDTH, width) for width in (narrow, wide)]
        return min(around, key=lambda candidate: abs(self.scalars(candidate) - target))

    def _settings(self, contender: Contender, seed: int) -> RunSettings:
        return checked_settings(
            method=contender.method,
            setting=self.setting,
            rounds=self.rounds,
            seed=seed,
            data=(self.data or default_data()).absolute(),
            options={**self.options, **contender.options},
            activation=contender.activation or self.activation,
            merge=contender.merge or self.merge,
            split_seed=self.split_seed,
        )

    def _progress(self) -> tuple[int, int]:
        rounds, finished = 0, 0
        for contender, seed in self.runs():
            kept = self._kept(contender, seed)
            told = self.run_folder(contender, seed).rounds_told()
            rounds += max(told, len(kept.rounds) if kept else 0)
            finished += self._finished(contender, seed)
        return rounds, finished

    def _finished(self, contender: Contender, seed: int) -> bool:
        here = self.run_folder(contender, seed).result() is not None
        return here or self._kept(contender, seed) is not None

    def _kept(self, contender: Contender, seed: int) -> Story | None:
        """Kept under the label of its settings, which has the options of the whole sweep too."""
        options = {**self.options, **contender.options}
        activation = contender.activation or self.activation
        merge = contender.merge or self.merge
        label = written(contender.method, options, activation=activation, merge=merge)
        return self.kept.get(label, {}).get(seed)


@contextmanager
def _at_once() -> Iterator[None]:
    """Ctrl-C ends the runs that are under way, wherever they are; all they did is on disk."""
    others = active_children()
    try:
        yield
    except KeyboardInterrupt as stop:
        for process in active_children():
            if process not in others:
                process.terminate()
        stop.add_note("stopped. The same command goes on where it was.")
        raise


def _do(sweep: Sweep, contender: Contender, seed: int) -> None:
    folder = sweep.run_folder(contender, seed)
    if folder.started:
        resume(folder.path)
        return
    options: dict[str, Any] = {**sweep.options, **contender.options}
    run(
        contender.method,
        sweep.setting,
        rounds=sweep.rounds,
        seed=seed,
        data=sweep.data,
        out=folder.path,
        activation=contender.activation or sweep.activation,
        merge=contender.merge or sweep.merge,
        split_seed=sweep.split_seed,
        **options,
    )
