"""What happened in one round: a line of `rounds.jsonl`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from statistics import fmean
from typing import Any


@dataclass(frozen=True)
class Record:
    """Round ``round``: clients trained and replied, the server merged, clients evaluated the merge.

    The merge of a round reaches the clients with their next message, so ``evaluated`` and ``down``
    belong to the exchange after the one in which they ``trained``.
    """

    round: int
    rounds: int  # of the whole run
    trained: Mapping[
        str, Mapping[str, float]
    ]  # client -> loss, weight, what it sent; at first its work too
    evaluated: Mapping[str, Mapping[str, float]]  # client -> scores
    down: Mapping[str, int]  # client -> bytes sent to it, answered or not
    failed: Mapping[str, str]  # client -> reason
    seconds: float
    memory: int = 0  # bytes, the most that any client's process held at once
    overview: Mapping[str, float] = field(default_factory=dict)  # the server's model on all data
    merging: Mapping[str, float] = field(default_factory=dict)  # what the server's rule tells
    tensors_down: int = 0  # to all clients
    scalars_down: int = 0
    retries: int = 0  # how often those who had not answered were asked again

    def mean(self, score: str) -> float:
        """The unweighted mean of a score over the clients."""
        return fmean(numbers[score] for numbers in self.evaluated.values())

    @property
    def bytes_up(self) -> int:
        return int(sum(numbers["up"] for numbers in self.trained.values()))

    @property
    def bytes_down(self) -> int:
        return sum(self.down.values())

    def line(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def parse(line: str) -> Record:
        facts: dict[str, Any] = json.loads(line)
        if "judged" in facts:  # older runs
            facts["evaluated"] = facts.pop("judged")
        return Record(**facts)
