"""Comparison of methods over splits and seeds: means, gains and p-values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean, stdev

from ramet.metrics import Scale, Summary
from ramet.studies.choice import Choice, differences, samples_ratio, score
from ramet.studies.convergence import not_converged
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns
from ramet.studies.gains import Gain, holm, paired_gain


@dataclass(frozen=True)
class Standing:
    """The result of one method. A positive gain is better than the baseline."""

    label: str
    seeds: int
    splits: int
    metric: str  # accuracy or ROC-AUC
    scale: Scale
    test: float
    spread: float | None  # sample standard deviation over runs
    worst: float  # test score of the worst run
    test_last_ten: float | None  # mean of the last ten rounds; None if clients were left out
    test_at_best_val: float
    overview: float | None  # server's model on all data, at the best validation round there
    overview_spread: float | None
    gain: float | None
    gain_low: float | None  # 95 % interval over the common splits, or over the seeds of one split
    gain_high: float | None
    p_value: float | None  # of the same paired t-test; None for fewer than five pairs
    p_holm: float | None  # adjusted for the number of methods that are compared
    effect: float | None  # the gain in standard deviations of the pairs' differences
    as_good: float | None  # p-value that the gain is within the margin; None without a margin
    scalars: float  # size of a client's model, mean over clients
    up_per_client_round: float
    flops_per_client_round: float | None
    rounds_to_target: float | None
    rounds: float  # that were trained, mean over runs
    epochs: float | None  # passes of a client over its samples; None in older runs
    not_final: str | None  # why the scores are not those of converged runs


def standings(
    runs: FinishedRuns, target: float | None = None, margin: float | None = None
) -> list[Standing]:
    """A row per method with a finished run. The baseline is `local`, or else the first method.

    Args:
        runs: by method and draw.
        target: count the rounds until this test score.
        margin: test whether each method is as good as the baseline, give or take this much.
    """
    labels = [label for label, by_seed in runs.items() if by_seed]
    baseline = "local" if "local" in labels else next(iter(labels), "")
    rows = [
        _standing(label, runs[label], {} if label == baseline else runs[baseline], target, margin)
        for label in labels
    ]
    adjusted = holm([row.p_value for row in rows])
    return [replace(row, p_holm=p) for row, p in zip(rows, adjusted, strict=True)]


def _standing(
    label: str,
    own: Mapping[Draw, FinishedRun],
    other: Mapping[Draw, FinishedRun],
    target: float | None,
    margin: float | None,
) -> Standing:
    summaries = [run.summary for run in own.values()]
    tests = [one.scores.test for one in summaries]
    overviews = [run.on_all_data for run in own.values() if run.on_all_data is not None]
    gain = gain_of(own, other)
    scores = (score(run, Choice.LAST_TEN) for run in own.values())
    last_tens = [one for one in scores if one is not None]
    return Standing(
        label=label,
        seeds=len({draw.seed for draw in own}),
        splits=len({draw.split_seed for draw in own}),
        metric=summaries[0].metric,
        scale=summaries[0].scale,
        test=fmean(tests),
        spread=stdev(tests) if len(own) > 1 else None,
        worst=summaries[0].scale.worst(tests),
        test_last_ten=fmean(last_tens) if len(last_tens) == len(own) else None,
        test_at_best_val=fmean(one.scores.test_at_best_val for one in summaries),
        overview=fmean(overviews) if overviews else None,
        overview_spread=stdev(overviews) if len(overviews) > 1 else None,
        gain=gain.mean if gain else None,
        gain_low=gain.low if gain else None,
        gain_high=gain.high if gain else None,
        p_value=gain.p_value if gain else None,
        p_holm=None,
        effect=gain.effect if gain else None,
        as_good=gain.equivalence(margin) if gain and margin is not None else None,
        scalars=fmean(count for one in summaries for count in one.model.scalars.values()),
        up_per_client_round=fmean(one.traffic.up_per_client_round for one in summaries),
        flops_per_client_round=_flops(summaries),
        rounds_to_target=_rounds_to(target, own.values()),
        rounds=fmean(one.rounds for one in summaries),
        epochs=_mean_of_known(one.epochs for one in summaries),
        not_final=not_converged(own.values()),
    )


def _flops(summaries: Iterable[Summary]) -> float | None:
    """FLOPs, which are the same for every seed. Old runs lack them."""
    counted = (one.flops.per_client_round for one in summaries)
    return next((flops for flops in counted if flops is not None), None)


def _mean_of_known(values: Iterable[float | None]) -> float | None:
    """The mean; None if a value is not known."""
    listed = [*values]
    known = [value for value in listed if value is not None]
    return fmean(known) if known and len(known) == len(listed) else None


def gain_of(
    own: Mapping[Draw, FinishedRun],
    other: Mapping[Draw, FinishedRun],
    choice: Choice = Choice.LAST,
    on_all_data: bool = False,
) -> Gain | None:
    """The gain on common draws; None without any, or if a run does not have the score."""
    found = differences(own, other, choice, on_all_data)
    return paired_gain(found, samples_ratio(own)) if found else None


def _first(run: FinishedRun, target: float) -> int | None:
    """The first round whose score reaches the target."""
    scale = run.summary.scale
    return next((one.number for one in run.rounds if scale.reaches(one.test, target)), None)


def _rounds_to(target: float | None, runs: Iterable[FinishedRun]) -> float | None:
    """The mean number of rounds to reach the target; None if a run never reaches it."""
    if target is None:
        return None
    firsts = [_first(run, target) for run in runs]
    reached = [first for first in firsts if first is not None]
    return fmean(reached) if reached and len(reached) == len(firsts) else None
