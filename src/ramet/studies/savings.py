"""Comparison of methods that send less with a baseline, over common seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean
from typing import Literal

from ramet.experiment import MethodSpec
from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns

POINTS_LOST, SHARE_SENT = 0.5, 0.75
"""FedDA's claim as tested here: at most this many points lost, and this share of bytes sent."""


def without_activation(spec: MethodSpec, baselines: Mapping[str, str]) -> MethodSpec:
    """The same method without its activation, or its baseline if it consists of the activation."""
    return replace(spec, method=baselines.get(spec.method, spec.method), activation=None)


@dataclass(frozen=True)
class Saving:
    """A method compared with its baseline: scores in points, traffic as shares."""

    group: str
    label: str
    seeds: int
    gain: float
    worst: float  # worst seed's score minus that of the baseline
    tensors_up: float
    bytes_up: float
    bytes_both: float

    @property
    def as_good_for_less(self) -> bool:
        return self.gain >= -POINTS_LOST and self.bytes_both <= SHARE_SENT

    @property
    def worst_no_lower(self) -> bool:
        return self.worst >= 0


def savings(group: str, runs: FinishedRuns, baseline: str, labels: Iterable[str]) -> list[Saving]:
    """A row for each label that has a seed in common with the baseline."""
    whole = runs.get(baseline, {})
    rows = (saving(group, label, runs.get(label, {}), whole) for label in labels)
    return [row for row in rows if row is not None]


def saving(
    group: str, label: str, own: Mapping[Draw, FinishedRun], whole: Mapping[Draw, FinishedRun]
) -> Saving | None:
    draws = sorted(own.keys() & whole.keys())
    if not draws:
        return None
    ours, theirs = [own[draw] for draw in draws], [whole[draw] for draw in draws]

    def share(kind: Literal["tensors", "bytes"]) -> float:
        return _sent_up(ours, kind) / _sent_up(theirs, kind)

    return Saving(
        group=group,
        label=label,
        seeds=len(draws),
        gain=100 * (fmean(s.score for s in ours) - fmean(s.score for s in theirs)),
        worst=100 * (min(s.score for s in ours) - min(s.score for s in theirs)),
        tensors_up=share("tensors"),
        bytes_up=share("bytes"),
        bytes_both=_both_ways(ours) / _both_ways(theirs),
    )


def _sent_up(runs: Iterable[FinishedRun], kind: Literal["tensors", "bytes"]) -> float:
    return float(sum(getattr(sent, kind).up for run in runs if (sent := run.summary.sent)))


def _both_ways(runs: Iterable[FinishedRun]) -> float:
    return float(sum(run.summary.traffic.total for run in runs))
