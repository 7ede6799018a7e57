"""Find good options of methods by their validation scores.

A trial is a setting of options, run with every seed. Trials are proposed in groups from the results
of the groups before, with a sampler that is seeded by the number of the trial. So the trials depend
neither on the number of parallel runs nor on when a search was stopped: it is continued by the same
command, which proposes the same trials and reads the runs that are finished.

Test scores are not read until all trials are done, and then only those of the best trials.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from statistics import fmean
from typing import Any, TypeAlias

from ramet.disk import write_atomically
from ramet.errors import RametError, unknown
from ramet.experiment import MethodSpec, RunFolder, default_data, make_folder
from ramet.experiment.named import NamedParts
from ramet.metrics.best import Evaluated, best_of
from ramet.options import allow_code, folder_name
from ramet.partition.given import with_given
from ramet.randomness import Randomness
from ramet.run_options import CODE, STUDY_KEYWORDS, Computing, with_keywords
from ramet.scale import SHARE, Scale
from ramet.studies.search_space import DEFAULT_SPACE, Space, parse_dimension
from ramet.studies.sweep import Sweep
from ramet.studies.unchanged_data import check_data
from ramet.tasks import Task

FILE = "tune.json"
GROUP = 4
"""The number of trials per method that are proposed together, and can run in parallel."""
_RANDOM_TRIALS = 8
"""The number of trials before the sampler learns from results."""


@dataclass(frozen=True)
class Trial:
    """A setting of the searched options, and its validation score; None if a run failed."""

    number: int
    options: Mapping[str, str]
    val: float | None


@dataclass(frozen=True)
class Best:
    """The best trial of a method, with its test score and the command to run it."""

    trial: Trial
    test: float
    command: str


@dataclass(frozen=True)
class Tuned:
    """The trials of each method, and the best of them."""

    folder: Path
    metric: str
    scale: Scale
    trials: Mapping[str, Sequence[Trial]]
    best: Mapping[str, Best]
    """By method, without those of which all trials failed."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Runs that failed, and why."""


Observer: TypeAlias = Callable[[Mapping[str, Sequence[Trial]], Scale], None]
"""Called with all trials so far after each group, and the scale of their scores."""


@dataclass(frozen=True)
class Search:
    """A search over the options of one or more methods, each with the same number of trials."""

    sweep: Sweep
    """The methods with their fixed options, the seeds, and the folder."""
    trials: int
    given: Space = field(default_factory=dict)
    """The options to search; by default those of the default space that a method has."""
    seed: int = 0

    def check(self) -> None:
        """Raise errors before the first trial."""
        check_installed()
        self.sweep.check()
        for method in self.sweep.methods:
            self.space(method)
        stored = self._file
        if stored.exists() and json.loads(stored.read_text())["search"] != self._facts():
            raise RametError(
                f"{self.sweep.folder} holds a search with other settings. Choose another folder "
                "with --out."
            )
        folders = (RunFolder(path) for path in sorted(self.sweep.folder.glob("*/")))
        check_data(self.sweep, (folder for folder in folders if folder.started))

    def execute(self, jobs: int, observe: Observer) -> Tuned:
        """Run the missing trials, ``jobs`` runs at a time."""
        trials: dict[str, list[Trial]] = {str(method): [] for method in self.sweep.methods}
        failed: dict[str, str] = {}
        make_folder(self.sweep.folder)
        if not self._file.exists():
            self._write(trials, {})
        for first in range(0, self.trials, GROUP):
            numbers = range(first, min(first + GROUP, self.trials))
            proposed = {
                str(method): [self._proposal(method, n, trials[str(method)]) for n in numbers]
                for method in self.sweep.methods
            }
            specs = {
                str(spec): spec
                for method in self.sweep.methods
                for options in proposed[str(method)]
                for spec in [with_options(method, options)]
            }
            group = replace(self.sweep, methods=tuple(specs.values()))
            failed |= _execute(group, jobs)
            for method in self.sweep.methods:
                for number, options in zip(numbers, proposed[str(method)], strict=True):
                    val = self._validation(with_options(method, options))
                    trials[str(method)].append(Trial(number, options, val))
            if len(numbers) + first > self._stored_trials():
                self._write(trials, {})
            observe(trials, self._scale)
        best = {
            str(method): self._best(method, found)
            for method in self.sweep.methods
            if (found := [one for one in trials[str(method)] if one.val is not None])
        }
        self._write(trials, best)
        return Tuned(self.sweep.folder, self._task.metric, self._scale, trials, best, failed)

    def _stored_trials(self) -> int:
        """The number of trials in the file, which stay there until there are more."""
        stored = json.loads(self._file.read_text())["trials"]
        return min(map(len, stored.values()))

    def _proposal(self, method: MethodSpec, number: int, known: Sequence[Trial]) -> dict[str, str]:
        """The options of a trial: first the defaults, then what the sampler proposes."""
        space = self.space(method)
        if number == 0:
            defaults = {name: str(self._defaults(method)[name]) for name in space}
            if all(space[name].value(text) is not None for name, text in defaults.items()):
                return defaults
        seed = Randomness(self.seed, str(method), number).number("trial")
        return sampled(space, known, seed, self._scale)

    def space(self, method: MethodSpec) -> Space:
        """The options of a method that are searched."""
        known = self._defaults(method)
        for name in self.given:
            if not any(name in self._defaults(other) for other in self.sweep.methods):
                raise unknown("option", name, known)
        fixed = {*self.sweep.options, *method.options}
        chosen = self.given or {k: v for k, v in DEFAULT_SPACE.items() if k not in fixed}
        space = {name: dimension for name, dimension in chosen.items() if name in known}
        if not space:
            raise RametError(
                f"{method} has none of the options to search, {', '.join(chosen)}. Name some of "
                f"its own with --search: {', '.join(known)}."
            )
        return space

    def _defaults(self, method: MethodSpec) -> dict[str, Any]:
        """All options of a method, its network and its training, with their defaults."""
        return self._parts[str(method)].defaults()

    @cached_property
    def _parts(self) -> dict[str, NamedParts]:
        first = self.sweep.draws[0]
        return {
            str(method): NamedParts.of(self.sweep.settings(method, first))
            for method in self.sweep.methods
        }

    def _validation(self, method: MethodSpec) -> float | None:
        """The best validation score of the rounds, mean over the seeds."""
        scores = []
        for draw in self.sweep.draws:
            folder = self.sweep.run_folder(method, draw)
            if folder.summary() is None:
                return None
            rounds = [Evaluated.of(one) for one in folder.records()]
            scores.append(best_of(rounds, self._scale).val)
        return fmean(scores)

    def _best(self, method: MethodSpec, trials: Sequence[Trial]) -> Best:
        """The first of the best trials, with the test score at its best validation score."""
        trial = self._scale.best(trials, lambda one: one.val or 0.0)
        spec = with_options(method, trial.options)
        summaries = [self.sweep.run_folder(spec, draw).summary() for draw in self.sweep.draws]
        test = fmean(one.scores.test_at_best_val for one in summaries if one)
        return Best(trial, test, self.sweep.settings(spec, self.sweep.draws[0]).command)

    @cached_property
    def _task(self) -> Task:
        return self.sweep.experiment(self.sweep.methods[0]).scored_method.task

    @property
    def _scale(self) -> Scale:
        return self._task.scale

    @property
    def _file(self) -> Path:
        return self.sweep.folder / FILE

    def _facts(self) -> dict[str, Any]:
        """What decides the trials, except their number."""
        methods = {
            str(method): {
                "command": self.sweep.settings(method, self.sweep.draws[0]).command,
                "space": {name: str(one) for name, one in self.space(method).items()},
            }
            for method in self.sweep.methods
        }
        return {"methods": methods, "seeds": list(self.sweep.seeds), "seed": self.seed}

    def _write(self, trials: Mapping[str, Sequence[Trial]], best: Mapping[str, Best]) -> None:
        content = {
            "search": self._facts(),
            "metric": self._task.metric,
            "trials": {label: [*map(asdict, found)] for label, found in trials.items()},
            "best": {
                label: {**asdict(one.trial), "test": one.test, "command": one.command}
                for label, one in best.items()
            },
        }
        write_atomically(self._file, (json.dumps(content, indent=1) + "\n").encode())


def with_options(method: MethodSpec, options: Mapping[str, str]) -> MethodSpec:
    return replace(method, options={**method.options, **options})


def check_installed() -> None:
    if find_spec("optuna") is None:
        raise RametError("tuning needs Optuna. Install it: pip install 'ramet[tune]'")


def _execute(sweep: Sweep, jobs: int) -> dict[str, str]:
    """Run the missing runs; a single job in this process, which spares it a start per run."""
    sweep.check()
    if jobs > 1:
        return sweep.execute(jobs, lambda *_: None)
    runs = (sweep.work(*pair) for pair in sweep.pairs())
    problems = {run.path.name: run.problem() for run in runs}
    return {name: problem for name, problem in problems.items() if problem is not None}


def sampled(
    space: Space, known: Sequence[Trial], seed: int, scale: Scale = SHARE
) -> dict[str, str]:
    """Options that the sampler proposes after the known trials."""
    import optuna
    from optuna.samplers import TPESampler
    from optuna.study import StudyDirection
    from optuna.trial import TrialState, create_trial

    optuna.logging.set_verbosity(optuna.logging.WARNING)
    distributions = {name: dimension.distribution() for name, dimension in space.items()}
    sampler = TPESampler(seed=seed % 2**32, n_startup_trials=_RANDOM_TRIALS)
    best = StudyDirection.MINIMIZE if scale.lower_is_better else StudyDirection.MAXIMIZE
    study = optuna.create_study(direction=best, sampler=sampler)
    for trial in known:
        study.add_trial(
            create_trial(
                state=TrialState.FAIL if trial.val is None else TrialState.COMPLETE,
                value=trial.val,
                params={name: space[name].value(text) for name, text in trial.options.items()},
                distributions=distributions,
            )
        )
    proposed = study.ask(distributions).params
    return {name: space[name].option(value) for name, value in proposed.items()}


@with_keywords(*STUDY_KEYWORDS)
def tune(
    methods: str | Sequence[str],
    setting: str = "tiny",
    *,
    trials: int = 20,
    search: Mapping[str, str] | None = None,
    seeds: Sequence[int] = (0,),
    jobs: int = 1,
    out: Path | str | None = None,
    observe: Observer | None = None,
    **options: Any,
) -> Tuned:
    """Search for the options with the best validation score; needs the extra ``tune``.

    Call it again with the same arguments to continue a search that was stopped. The options of its
    runs are keywords, as for `ramet.run`.

    Args:
        methods: one or more methods, each with fixed options after commas: ``fedprox,mu=0.1``.
        setting: a name from ``ramet list settings``, or ``file.py:setting``. PyG objects are
            given as ``clients`` instead, as for `ramet.run`.
        trials: the number of trials of each method.
        search: what to vary: ``{"lr": "0.001..0.1:log", "hidden": "32,64"}``. By default learning
            rate, weight decay, dropout, width and mu, where a method or its network has them.
        seeds: each trial is run with all of these, and its score is the mean.
        jobs: the number of parallel runs; it does not change the trials.
        out: the folder of the search; default: ``tune/SETTING``.
        observe: called with all trials so far, and the scale of their scores, after each group.
        options: options of the runs, and fixed options of all methods and of the setting.
    """
    texts = [methods] if isinstance(methods, str) else methods
    specs = tuple(MethodSpec.parse(text) for text in texts)
    computing = Computing.taken_from(options)
    chosen = {name: options.pop(name) for name in STUDY_KEYWORDS if name in options}
    data = Path(chosen.get("data") or default_data())
    setting, options = with_given(setting, options, data, chosen.get("task"))
    allow_code(
        setting, *(chosen.get(kind) for kind in CODE), *(part for s in specs for part in s.code)
    )
    sweep = Sweep(
        methods=specs,
        setting=setting,
        seeds=tuple(seeds),
        folder=Path(out or Path("tune") / folder_name(setting)).absolute(),
        options={key: str(value) for key, value in options.items()},
        given=chosen,
        computing=computing,
    )
    given = {name: parse_dimension(text) for name, text in (search or {}).items()}
    plan = Search(sweep, trials, given)
    plan.check()
    return plan.execute(jobs, observe or (lambda *_: None))
