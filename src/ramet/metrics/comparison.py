"""Several methods over the same seeds: means, gains, and whether a gain is more than luck."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from ramet.metrics.story import Stories, Story
from ramet.metrics.summary import measure


@dataclass(frozen=True)
class Standing:
    """How one method did; scores are fractions, the gain is over the yardstick."""

    label: str
    seeds: int
    measure: str  # what the scores are: accuracy, ROC-AUC
    test: float
    spread: float | None  # standard deviation over seeds
    worst: float  # of the seeds
    test_at_best_val: float
    overview: float | None  # the server's model on all data, at the best validation there
    overview_spread: float | None
    gain: float | None
    chance: float | None  # p-value of a paired t-test over the common seeds
    scalars: float  # of a client's model, mean over the clients
    up_per_client_round: float
    flops_per_client_round: float | None
    rounds_to_target: float | None


def standings(stories: Stories, target: float | None = None) -> list[Standing]:
    """A row per method with a finished run; `local`, or else the first, is the yardstick."""
    labels = [label for label, runs in stories.items() if runs]
    yardstick = "local" if "local" in labels else next(iter(labels), "")
    return [
        _standing(label, stories[label], {} if label == yardstick else stories[yardstick], target)
        for label in labels
    ]


def _standing(
    label: str,
    own: Mapping[int, Story],
    other: Mapping[int, Story],
    target: float | None,
) -> Standing:
    results = [story.result for story in own.values()]
    tests = {seed: _test(story) for seed, story in own.items()}
    overviews = [s.on_all_data for s in own.values() if s.on_all_data is not None]
    gains = [tests[seed] - _test(other[seed]) for seed in sorted(own.keys() & other.keys())]
    return Standing(
        label=label,
        seeds=len(own),
        measure=measure(results[0]),
        test=fmean(tests.values()),
        spread=stdev(tests.values()) if len(own) > 1 else None,
        worst=min(tests.values()),
        test_at_best_val=fmean(result["scores"]["test_at_best_val"] for result in results),
        overview=fmean(overviews) if overviews else None,
        overview_spread=stdev(overviews) if len(overviews) > 1 else None,
        gain=fmean(gains) if gains else None,
        chance=chance(gains),
        scalars=fmean(n for result in results for n in result["model"]["scalars"].values()),
        up_per_client_round=fmean(r["traffic"]["up_per_client_round"] for r in results),
        flops_per_client_round=_flops(results),
        rounds_to_target=_rounds_to(target, own.values()),
    )


def _test(story: Story) -> float:
    return float(story.result["scores"]["test"])


def _flops(results: Iterable[Mapping[str, Any]]) -> float | None:
    """The same for every seed, as the split is; runs of before it was counted have none."""
    counted = (result.get("flops", {}).get("per_client_round") for result in results)
    return next((flops for flops in counted if flops is not None), None)


def chance(gains: Sequence[float]) -> float | None:
    """The p-value of a paired t-test; None where there is nothing to test."""
    if len(gains) < 2 or len(set(gains)) == 1:
        return None
    from scipy.stats import ttest_1samp  # takes half a second to import

    return float(ttest_1samp(gains, 0.0).pvalue)


def _rounds_to(target: float | None, stories: Iterable[Story]) -> float | None:
    """The mean first round at which the target is met; None if a run never meets it."""
    if target is None:
        return None
    firsts = [
        next((number for number, _, test, *_ in story.rounds if test >= target), None)
        for story in stories
    ]
    met = [first for first in firsts if first is not None]
    return fmean(met) if met and len(met) == len(firsts) else None
