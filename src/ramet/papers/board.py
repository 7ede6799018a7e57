"""The board: methods on the same data, partition and number of rounds, from finished runs."""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from inspect import getsourcefile
from pathlib import Path
from statistics import fmean
from typing import Any

from ramet.engine.start import extras_up, start_extras
from ramet.errors import RametError
from ramet.experiment import MethodSpec, default_data
from ramet.experiment.capabilities import Can
from ramet.experiment.code import code_sha256
from ramet.experiment.compatibility import why_not
from ramet.experiment.named import NamedParts, method_factory, setting_factory
from ramet.options import arguments
from ramet.papers.code_lines import code_lines
from ramet.papers.same_algorithm import equal_results, same_algorithms
from ramet.payload import everything, nothing
from ramet.rules.method import AssembledMethod
from ramet.studies.archive import by_label, runs_below
from ramet.studies.choice import samples_ratio
from ramet.studies.comparison import gain_of
from ramet.studies.finished_run import Draw, FinishedRun
from ramet.studies.gains import Gain, paired_gain

_MOST_NAMES = 3
_ANY = "METHOD"
_TRAINED = ("site_model", "trained")


@dataclass(frozen=True)
class Terms:
    """What the runs of a comparison have in common."""

    setting: str
    options: Mapping[str, str]
    """Of the setting: the partition, the number of clients and so on."""
    rounds: int
    metric: str

    def __str__(self) -> str:
        options = [f"{key}={value}" for key, value in self.options.items()]
        return ", ".join([self.setting, *options, f"{self.rounds} rounds"])


@dataclass(frozen=True)
class Leaving:
    """What a method sends, as its code declares it."""

    arrays: str
    why_not_secure: str | None
    """Why replies cannot be summed securely; None if they can."""


@dataclass(frozen=True)
class Entry:
    """One method of a comparison. Scores are test scores after the last round."""

    method: str
    rank: tuple[int, int] | None
    """The best and the worst rank that the intervals of all differences leave open; None for the
    algorithm of another entry."""
    same_as: str | None
    """The entry with the same algorithm, under these terms, that is ranked."""
    score: Gain
    """Mean and 95 % interval."""
    at_best: float
    """The mean test score at each run's best validation round."""
    trained: Gain | None
    """Like ``score``, if each client is evaluated with the network that it has just trained,
    before the merge; None if it was not."""
    splits: int
    seeds: int
    up: float
    """Bytes that a client sends in a round."""
    down: float
    total: float
    """Bytes of all clients and rounds, both ways."""
    scalars: float
    """Of a client's network, shared and private."""
    seconds: float
    lines: int | None
    """Lines of code of the method's file; None if it is not here, or has changed since."""
    leaving: Leaving | None
    """None if the method is in a file that is not here, or has changed since."""
    commits: tuple[str, ...]
    sha256: Mapping[str, str]
    """The hash of what each run learned, by its command."""


@dataclass(frozen=True)
class Panel:
    """All methods under the same terms, by mean score."""

    terms: Terms
    entries: Sequence[Entry]
    majority: float | None
    """The mean test score of always predicting a client's most frequent training class."""
    command: str
    """Adds an entry."""

    def to_json(self) -> dict[str, Any]:
        return asdict(self)


def board(paths: Iterable[Path]) -> list[Panel]:
    """A panel for each combination of data, partition and rounds among the runs below the paths."""
    groups: dict[str, list[FinishedRun]] = {}
    for run in runs_below(paths):
        groups.setdefault(str(_terms(run)), []).append(_without_terms(run))
    return [_panel(runs) for _, runs in sorted(groups.items())]


def _terms(run: FinishedRun) -> Terms:
    accepted = arguments(setting_factory(run.setting))
    options = {key: value for key, value in sorted(run.options.items()) if key in accepted}
    return Terms(run.setting, options, run.summary.rounds, run.summary.metric)


def _without_terms(run: FinishedRun) -> FinishedRun:
    """The run, labelled without the options that all runs of its panel have."""
    common = _terms(run).options
    options = {key: value for key, value in run.spec.options.items() if key not in common}
    return replace(run, label=str(replace(run.spec, options=options)))


def _panel(every: Sequence[FinishedRun]) -> Panel:
    whole = by_label(every)
    beside = {one: _merged(one) for one in whole if _merged(one) != one and _merged(one) in whole}
    trained = {merged: whole[one] for one, merged in beside.items()}
    runs = {label: own for label, own in whole.items() if label not in beside}
    twins = same_algorithms(runs)
    ranked = [own for label, own in runs.items() if label not in twins]
    entries = [
        _entry(label, own, ranked, twins.get(label), trained.get(label))
        for label, own in runs.items()
        if label not in twins or not equal_results(own, runs[twins[label]])
    ]
    terms = _terms(every[0])
    return Panel(
        terms,
        sorted(entries, key=lambda entry: -entry.score.mean),
        _majority(every),
        _command(terms, {run.draw for run in every}),
    )


def _entry(
    label: str,
    own: Mapping[Draw, FinishedRun],
    ranked: Sequence[Mapping[Draw, FinishedRun]],
    same_as: str | None,
    trained: Mapping[Draw, FinishedRun] | None,
) -> Entry:
    gains = [gain_of(own, other) for other in ranked if other is not own]
    verdicts = [gain.verdict for gain in gains if gain is not None]
    summaries = [run.summary for run in own.values()]
    first = next(iter(own.values()))
    spec, unchanged = first.spec, code_sha256(first.spec) == first.versions.get("method")
    return Entry(
        method=label,
        rank=None
        if same_as
        else (1 + verdicts.count("hurts"), len(ranked) - verdicts.count("helps")),
        same_as=same_as,
        score=_score(own),
        trained=_score(trained) if trained else None,
        at_best=fmean(one.scores.test_at_best_val for one in summaries),
        splits=len({draw.split_seed for draw in own}),
        seeds=len({draw.seed for draw in own}),
        up=fmean(one.traffic.up_per_client_round for one in summaries),
        down=fmean(one.traffic.down_per_client_round for one in summaries),
        total=fmean(one.traffic.total for one in summaries),
        scalars=fmean(count for one in summaries for count in one.model.scalars.values()),
        seconds=fmean(one.seconds for one in summaries),
        lines=_lines(spec.method) if unchanged else None,
        leaving=_leaving(first) if unchanged else None,
        commits=tuple(sorted({run.versions.get("commit", "?") for run in own.values()})),
        sha256={run.command: run.summary.sha256 for run in own.values()},
    )


def _score(runs: Mapping[Draw, FinishedRun]) -> Gain:
    scores = {draw: run.summary.scores.test for draw, run in runs.items()}
    return paired_gain(scores, samples_ratio(runs))


def _merged(label: str) -> str:
    """The label of the same method whose clients are evaluated with the merged network."""
    spec = MethodSpec.parse(label)
    options = {key: value for key, value in spec.options.items() if (key, value) != _TRAINED}
    return str(replace(spec, options=options))


def _majority(runs: Sequence[FinishedRun]) -> float | None:
    every = [one.constant for run in runs for one in run.summary.baselines.values()]
    known = [score for score in every if score is not None]
    return fmean(known) if known else None


def _lines(method: str) -> int | None:
    try:
        file = getsourcefile(method_factory(method))
    except RametError:
        return None
    return code_lines(Path(file).read_text()) if file else None


def _leaving(run: FinishedRun) -> Leaving | None:
    spec = run.spec
    try:
        parts = NamedParts(spec.method, run.setting, spec.network, run.options, default_data())
        method = parts.assembled(spec.share, spec.activation, spec.merge, spec.release)
    except RametError:
        return None
    return Leaving(_arrays(method), why_not(method, Can.SECURE))


def _arrays(method: AssembledMethod) -> str:
    shape = method.task.plain_shape(method.inputs)
    start = start_extras(method, shape, 0)
    extras = [name for exchange in start for name in extras_up(method, start, exchange)]
    named = ", ".join(extras) if len(extras) <= _MOST_NAMES else f"{len(extras)} extras"
    shared = {nothing: "", everything: "all parameters"}
    parameters = shared.get(method.shared, f"parameters {method.shared}")
    return "; ".join(part for part in (parameters, named) if part) or str(nothing)


def _command(terms: Terms, draws: Iterable[Draw]) -> str:
    splits = sorted({draw.split_seed for draw in draws})
    seeds = sorted({draw.seed for draw in draws})
    words = ["ramet", "compare", _ANY, "--setting", terms.setting]
    for key, value in terms.options.items():
        words += ["--set", f"{key}={value}"]
    words += ["--rounds", str(terms.rounds), "--seeds", ",".join(map(str, seeds))]
    words += ["--split-seed", str(splits[0]), "--splits", str(splits[-1] - splits[0] + 1)]
    return shlex.join([*words, "--keep", "kept"])
