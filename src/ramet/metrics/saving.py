"""A method that sends less beside one that sends everything, over the seeds that both have."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from statistics import fmean

from ramet.metrics.story import Stories, Story

POINTS_LOST, SHARE_SENT = 0.5, 0.75
"""FedDA's claim as it is judged here: no more points lost than this, no more bytes sent."""


def asking_everyone(label: str) -> str:
    """The same method without its activation; FedDA without its own is `fed-hgn`."""
    method, comma, options = label.partition(",activation=")[0].partition(",")
    return ("fed-hgn" if method == "fedda" else method) + comma + options


@dataclass(frozen=True)
class Saving:
    """Scores in points, what was sent as shares of what the yardstick sent."""

    place: str
    label: str
    seeds: int
    gain: float
    worst: float  # worst seed's score over the yardstick's worst
    tensors_up: float
    bytes_up: float
    bytes_both: float

    @property
    def as_good_for_less(self) -> bool:
        return self.gain >= -POINTS_LOST and self.bytes_both <= SHARE_SENT

    @property
    def steadier(self) -> bool:
        return self.worst >= 0


def savings(place: str, stories: Stories, yardstick: str, labels: Iterable[str]) -> list[Saving]:
    """A row for each of the labels that has a seed in common with the yardstick."""
    whole = stories.get(yardstick, {})
    rows = (saving(place, label, stories.get(label, {}), whole) for label in labels)
    return [row for row in rows if row is not None]


def saving(
    place: str, label: str, own: Mapping[int, Story], whole: Mapping[int, Story]
) -> Saving | None:
    seeds = sorted(own.keys() & whole.keys())
    if not seeds:
        return None
    ours, theirs = [own[seed] for seed in seeds], [whole[seed] for seed in seeds]

    def share(kind: str) -> float:
        return _up(ours, kind) / _up(theirs, kind)

    return Saving(
        place=place,
        label=label,
        seeds=len(seeds),
        gain=100 * (fmean(s.score for s in ours) - fmean(s.score for s in theirs)),
        worst=100 * (min(s.score for s in ours) - min(s.score for s in theirs)),
        tensors_up=share("tensors"),
        bytes_up=share("bytes"),
        bytes_both=_both_ways(ours) / _both_ways(theirs),
    )


def _up(stories: Iterable[Story], kind: str) -> float:
    return sum(float(story.result["sent"][kind]["up"]) for story in stories)


def _both_ways(stories: Iterable[Story]) -> float:
    return sum(float(story.result["traffic"]["total"]) for story in stories)
