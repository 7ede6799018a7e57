"""Comparison of methods over splits and seeds: means, gains and p-values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from ramet.metrics import Summary
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns
from ramet.studies.gains import Gain, paired_gain


@dataclass(frozen=True)
class Standing:
    """The result of one method. Scores are fractions; the gain is over the baseline."""

    label: str
    seeds: int
    splits: int
    metric: str  # accuracy or ROC-AUC
    test: float
    spread: float | None  # sample standard deviation over runs
    worst: float  # test score of the worst run
    test_at_best_val: float
    overview: float | None  # server's model on all data, at the best validation round there
    overview_spread: float | None
    gain: float | None
    p_value: float | None  # paired t-test over the common splits, or over the seeds of one split
    scalars: float  # size of a client's model, mean over clients
    up_per_client_round: float
    flops_per_client_round: float | None
    rounds_to_target: float | None


def standings(runs: FinishedRuns, target: float | None = None) -> list[Standing]:
    """A row per method with a finished run. The baseline is `local`, or else the first method."""
    labels = [label for label, by_seed in runs.items() if by_seed]
    baseline = "local" if "local" in labels else next(iter(labels), "")
    return [
        _standing(label, runs[label], {} if label == baseline else runs[baseline], target)
        for label in labels
    ]


def _standing(
    label: str,
    own: Mapping[Draw, FinishedRun],
    other: Mapping[Draw, FinishedRun],
    target: float | None,
) -> Standing:
    summaries = [run.summary for run in own.values()]
    tests = [one.scores.test for one in summaries]
    overviews = [run.on_all_data for run in own.values() if run.on_all_data is not None]
    gain = _gain(own, other)
    return Standing(
        label=label,
        seeds=len({draw.seed for draw in own}),
        splits=len({draw.split_seed for draw in own}),
        metric=summaries[0].metric,
        test=fmean(tests),
        spread=stdev(tests) if len(own) > 1 else None,
        worst=min(tests),
        test_at_best_val=fmean(one.scores.test_at_best_val for one in summaries),
        overview=fmean(overviews) if overviews else None,
        overview_spread=stdev(overviews) if len(overviews) > 1 else None,
        gain=gain.mean if gain else None,
        p_value=gain.p_value if gain else None,
        scalars=fmean(count for one in summaries for count in one.model.scalars.values()),
        up_per_client_round=fmean(one.traffic.up_per_client_round for one in summaries),
        flops_per_client_round=_flops(summaries),
        rounds_to_target=_rounds_to(target, own.values()),
    )


def _flops(summaries: Iterable[Summary]) -> float | None:
    """FLOPs, which are the same for every seed. Old runs lack them."""
    counted = (one.flops.per_client_round for one in summaries)
    return next((flops for flops in counted if flops is not None), None)


def p_value(gains: Sequence[float]) -> float | None:
    """Return the p-value of a paired t-test; None for fewer than two or equal gains."""
    return paired_gain({Draw(0, seed): gain for seed, gain in enumerate(gains)}, None).p_value


def _gain(own: Mapping[Draw, FinishedRun], other: Mapping[Draw, FinishedRun]) -> Gain | None:
    """The gain in the mean over clients; None without common draws."""
    draws = sorted(own.keys() & other.keys())
    if not draws:
        return None
    differences = {
        draw: own[draw].summary.scores.test - other[draw].summary.scores.test for draw in draws
    }
    baselines = own[draws[0]].summary.baselines.values()
    ratios = [one.test / max(one.train, 1) for one in baselines]
    return paired_gain(differences, fmean(ratios) if ratios else None)


def _rounds_to(target: float | None, runs: Iterable[FinishedRun]) -> float | None:
    """The mean number of rounds to reach the target; None if a run never reaches it."""
    if target is None:
        return None
    firsts = [next((one.number for one in run.rounds if one.test >= target), None) for run in runs]
    reached = [first for first in firsts if first is not None]
    return fmean(reached) if reached and len(reached) == len(firsts) else None
