"""The record of one round: a line of `rounds.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import nan
from statistics import fmean

from ramet.scale import PERCENT, Scale


@dataclass(frozen=True)
class Record:
    """One round: clients trained and replied, the server merged, clients evaluated the merge.

    The merge of a round is sent with the next message, so ``evaluated`` and ``down`` come from the
    exchange after the one in which the clients ``trained``.
    """

    round: int
    rounds: int  # of the whole run
    trained: Mapping[str, Mapping[str, float]]
    """By client: loss, weight and what it sent; in some rounds also the operations of training."""
    evaluated: Mapping[str, Mapping[str, float]]  # client -> scores
    down: Mapping[str, int]  # client -> bytes sent to it, even if it did not answer
    failed: Mapping[str, str]  # client -> reason
    seconds: float
    cpu_seconds: float | None = field(default=None, kw_only=True, compare=False)
    """Of all processes that computed the round; None if they are not all on this machine."""
    memory: int = 0  # bytes, the highest peak of any client's process
    overview: Mapping[str, float] = field(default_factory=dict)  # the server's model on all data
    merging: Mapping[str, float] = field(default_factory=dict)  # what the merging rule reported
    tensors_down: int = 0  # to all clients
    scalars_down: int = 0
    retries: int = 0  # how often missing clients were asked again
    trained_mean: Mapping[str, float] = field(default_factory=dict)
    """Means over the clients, if the server learns nothing else: loss and weight."""
    evaluated_mean: Mapping[str, float] = field(default_factory=dict)
    """Means over the clients, if the server learns nothing else: the scores."""
    unit: str = PERCENT
    """The unit of the scores."""
    start: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """In round 1, the scores of the models that sites of a consortium started with, by client."""

    def mean(self, score: str) -> float:
        """The unweighted mean of a score over the clients that have it; NaN if none has."""
        if self.evaluated_mean:
            return self.evaluated_mean.get(score, nan)
        scores = [numbers[score] for numbers in self.evaluated.values() if score in numbers]
        return fmean(scores) if scores else nan

    def shown(self, score: str) -> str:
        """The mean of a score, with its unit."""
        scale = Scale(unit=self.unit)
        return f"{scale.shown(self.mean(score))}{scale.suffix}"

    @property
    def bytes_up(self) -> int:
        return int(sum(numbers["up"] for numbers in self.trained.values()))

    @property
    def bytes_down(self) -> int:
        return sum(self.down.values())

    def line(self) -> str:
        facts = asdict(self)
        usual = {"unit": PERCENT, "start": {}}
        return json.dumps({n: f for n, f in facts.items() if n not in usual or f != usual[n]})

    @staticmethod
    def parse(line: str) -> Record:
        return Record(**json.loads(line))
