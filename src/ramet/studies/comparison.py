"""Comparison of methods over seeds: means, gains and p-values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev

from ramet.metrics import Summary
from ramet.studies.finished_run import FinishedRun, FinishedRuns


@dataclass(frozen=True)
class Standing:
    """The result of one method. Scores are fractions; the gain is over the baseline."""

    label: str
    seeds: int
    metric: str  # accuracy or ROC-AUC
    test: float
    spread: float | None  # sample standard deviation over seeds
    worst: float  # test score of the worst seed
    test_at_best_val: float
    overview: float | None  # server's model on all data, at the best validation round there
    overview_spread: float | None
    gain: float | None
    p_value: float | None  # paired t-test over the common seeds
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
    own: Mapping[int, FinishedRun],
    other: Mapping[int, FinishedRun],
    target: float | None,
) -> Standing:
    summaries = [run.summary for run in own.values()]
    tests = {seed: run.summary.scores.test for seed, run in own.items()}
    overviews = [run.on_all_data for run in own.values() if run.on_all_data is not None]
    gains = [
        tests[seed] - other[seed].summary.scores.test for seed in sorted(own.keys() & other.keys())
    ]
    return Standing(
        label=label,
        seeds=len(own),
        metric=summaries[0].metric,
        test=fmean(tests.values()),
        spread=stdev(tests.values()) if len(own) > 1 else None,
        worst=min(tests.values()),
        test_at_best_val=fmean(one.scores.test_at_best_val for one in summaries),
        overview=fmean(overviews) if overviews else None,
        overview_spread=stdev(overviews) if len(overviews) > 1 else None,
        gain=fmean(gains) if gains else None,
        p_value=p_value(gains),
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
    if len(gains) < 2 or len(set(gains)) == 1:
        return None
    from scipy.stats import ttest_1samp  # takes half a second to import

    return float(ttest_1samp(gains, 0.0).pvalue)


def _rounds_to(target: float | None, runs: Iterable[FinishedRun]) -> float | None:
    """The mean number of rounds to reach the target; None if a run never reaches it."""
    if target is None:
        return None
    firsts = [next((one.number for one in run.rounds if one.test >= target), None) for run in runs]
    reached = [first for first in firsts if first is not None]
    return fmean(reached) if reached and len(reached) == len(firsts) else None
