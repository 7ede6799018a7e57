"""The round that a run's score is read at. All choices are shown: none is picked afterwards."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import Enum
from itertools import combinations
from statistics import fmean

from ramet.errors import RametError
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns

_LAST = 10


class Choice(Enum):
    """The last round, the mean of the last ten, or the one with the best validation score."""

    LAST = "last round"
    LAST_TEN = "last ten"
    BEST_VALIDATION = "best val"


def score(run: FinishedRun, choice: Choice, on_all_data: bool = False) -> float | None:
    """The test score: the mean over clients, or that of the server's model on all data.

    None if the run does not have it.
    """
    scores = run.summary.scores
    if choice is Choice.LAST:
        return scores.overview.get("test") if on_all_data else scores.test
    if choice is Choice.BEST_VALIDATION:
        return run.on_all_data if on_all_data else scores.test_at_best_val
    last = run.rounds[-_LAST:]
    if not on_all_data:
        # without the left-out clients, rounds are means over different clients
        return None if run.left_out_clients(_LAST) else fmean(one.test for one in last)
    seen = [one.overview for one in last if one.overview is not None]
    return fmean(seen) if seen and len(seen) == len(last) else None


def check_metrics(scored: Iterable[tuple[str, str]]) -> None:
    """Raise RametError if methods, given with their metrics, are not scored alike."""
    one, *others = scored
    for label, metric in others:
        if metric != one[1]:
            raise RametError(
                f"{one[0]} is scored by {one[1]}, but {label} by {metric}: these cannot be "
                "compared. Give methods whose tasks have the same metric."
            )


def differences(
    own: Mapping[Draw, FinishedRun],
    other: Mapping[Draw, FinishedRun],
    choice: Choice,
    on_all_data: bool = False,
    other_on_all_data: bool | None = None,
) -> dict[Draw, float]:
    """By how much the scores are better on common draws; empty if a run does not have the score.

    Args:
        own: runs of one method.
        other: runs of the other.
        choice: the round.
        on_all_data: whether the scores are those of the server's model on all data.
        other_on_all_data: the same for ``other``, if it differs.
    """
    theirs_on_all = on_all_data if other_on_all_data is None else other_on_all_data
    common = sorted(own.keys() & other.keys())
    for draw in common:
        check_metrics((run.label, run.summary.metric) for run in (own[draw], other[draw]))
    pairs = {
        draw: (score(own[draw], choice, on_all_data), score(other[draw], choice, theirs_on_all))
        for draw in common
    }
    known = {
        draw: own[draw].summary.scale.gain(ours, theirs)
        for draw, (ours, theirs) in pairs.items()
        if ours is not None and theirs is not None
    }
    return known if len(known) == len(pairs) else {}


def samples_ratio(runs: Mapping[Draw, FinishedRun]) -> float | None:
    """Test samples per training sample, the mean over clients; None in older runs."""
    for run in runs.values():
        sizes = run.summary.baselines.values()
        if sizes:
            return fmean(one.test / max(one.train, 1) for one in sizes)
    return None


def reversals(runs: FinishedRuns) -> list[tuple[str, str]]:
    """The pairs of methods whose order depends on the choice of the round, on common draws."""
    return [
        (first, second)
        for first, second in combinations([label for label, own in runs.items() if own], 2)
        if _reversed(runs[first], runs[second])
    ]


def _reversed(first: Mapping[Draw, FinishedRun], second: Mapping[Draw, FinishedRun]) -> bool:
    found = (differences(first, second, choice) for choice in Choice)
    means = [fmean(values.values()) for values in found if values]
    return any(mean > 0 for mean in means) and any(mean < 0 for mean in means)
