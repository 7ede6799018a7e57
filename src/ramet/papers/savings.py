"""Comparison of methods that send less with a baseline, over common seeds."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ramet.studies.finished_run import Draw, FinishedRun, FinishedRuns
from ramet.studies.gains import FEWEST_PAIRS, Gain, paired_gain

POINTS_LOST, SHARE_SENT = 0.5, 0.75
"""FedDA's claim as tested here: at most this many points lost, and this share of bytes sent."""


@dataclass(frozen=True)
class Saving:
    """A method compared with its baseline: scores in points, traffic as shares."""

    group: str
    label: str
    seeds: int
    gain: Gain
    worst: float  # worst seed's score minus that of the baseline
    tensors_up: float
    bytes_up: float
    bytes_both: float

    @property
    def as_good_for_less(self) -> Literal["holds", "undecided", "fails"]:
        """Decided by the interval of the gain, if there are enough seeds, and by the bytes."""
        if self.bytes_both > SHARE_SENT:
            return "fails"
        if self.seeds < FEWEST_PAIRS:
            return "undecided"
        return self.gain.at_least(-POINTS_LOST)


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

    gain = paired_gain({draw: 100 * (own[draw].score - whole[draw].score) for draw in draws}, None)
    return Saving(
        group=group,
        label=label,
        seeds=len(draws),
        gain=gain,
        worst=100 * (min(s.score for s in ours) - min(s.score for s in theirs)),
        tensors_up=share("tensors"),
        bytes_up=share("bytes"),
        bytes_both=bytes_both_ways(ours) / bytes_both_ways(theirs),
    )


def _sent_up(runs: Iterable[FinishedRun], kind: Literal["tensors", "bytes"]) -> float:
    return float(sum(getattr(sent, kind).up for run in runs if (sent := run.summary.sent)))


def bytes_both_ways(runs: Iterable[FinishedRun]) -> float:
    """All bytes that the runs sent."""
    return float(sum(run.summary.traffic.total for run in runs))
