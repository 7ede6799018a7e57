"""Several methods over the same seeds: means, gains, and whether a gain is more than luck."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Any

from ramet.metrics.record import Record


@dataclass(frozen=True)
class Standing:
    """How one method did; scores are fractions, the gain is over the yardstick."""

    label: str
    seeds: int
    test: float
    spread: float | None  # standard deviation over seeds
    test_at_best_val: float
    gain: float | None
    chance: float | None  # p-value of a paired t-test over the common seeds
    scalars: float  # of a client's model, mean over the clients
    up_per_client_round: float
    flops_per_client_round: float | None
    rounds_to_target: float | None


def standings(
    summaries: Mapping[str, Mapping[int, Mapping[str, Any]]],
    records: Mapping[str, Mapping[int, Sequence[Record]]],
    target: float | None = None,
) -> list[Standing]:
    """A row per method with a finished run; `local`, or else the first, is the yardstick."""
    labels = [label for label, runs in summaries.items() if runs]
    if not labels:
        return []
    yardstick = "local" if "local" in labels else labels[0]
    tests = {
        label: {seed: summary["scores"]["test"] for seed, summary in summaries[label].items()}
        for label in labels
    }
    return [
        _standing(
            label,
            summaries[label],
            tests[label],
            {} if label == yardstick else tests[yardstick],
            _rounds_to(target, records[label]),
        )
        for label in labels
    ]


def _standing(
    label: str,
    summaries: Mapping[int, Mapping[str, Any]],
    own: Mapping[int, float],
    other: Mapping[int, float],
    rounds_to_target: float | None,
) -> Standing:
    common = sorted(own.keys() & other.keys())
    gains = [own[seed] - other[seed] for seed in common]
    return Standing(
        label=label,
        seeds=len(own),
        test=fmean(own.values()),
        spread=stdev(own.values()) if len(own) > 1 else None,
        test_at_best_val=fmean(s["scores"]["test_at_best_val"] for s in summaries.values()),
        gain=fmean(gains) if gains else None,
        chance=_chance(gains),
        scalars=fmean(
            scalars for s in summaries.values() for scalars in s["model"]["scalars"].values()
        ),
        up_per_client_round=fmean(s["traffic"]["up_per_client_round"] for s in summaries.values()),
        flops_per_client_round=_flops(summaries.values()),
        rounds_to_target=rounds_to_target,
    )


def _flops(summaries: Iterable[Mapping[str, Any]]) -> float | None:
    """The same for every seed, as the split is; runs of before it was counted have none."""
    counted = (summary.get("flops", {}).get("per_client_round") for summary in summaries)
    return next((flops for flops in counted if flops is not None), None)


def _chance(gains: Sequence[float]) -> float | None:
    if len(gains) < 2 or len(set(gains)) == 1:
        return None
    from scipy.stats import ttest_1samp  # takes half a second to import

    return float(ttest_1samp(gains, 0.0).pvalue)


def _rounds_to(target: float | None, runs: Mapping[int, Sequence[Record]]) -> float | None:
    """The mean first round at which the target is met; None if a run never meets it."""
    if target is None:
        return None
    firsts = [
        next((record.round for record in records if record.mean("test") >= target), None)
        for records in runs.values()
    ]
    met = [first for first in firsts if first is not None]
    return fmean(met) if met and len(met) == len(firsts) else None
