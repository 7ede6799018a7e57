"""Pace: whether a round waits for all replies, or only for the first of them."""

from __future__ import annotations

import torch
from pydantic import NonNegativeFloat, PositiveInt
from pydantic.dataclasses import dataclass

from ramet.randomness import Randomness


@dataclass(frozen=True)
class FirstReplies:
    """A round ends with the first ``count`` replies. Slower clients reply in later rounds.

    A client that has replied is sent the new merge and trains again; the others continue. Replies
    to an older merge are moved to the current one: their update is kept. The number ``stale`` of a
    reply is the number of merges that it has missed.

    By default the durations are simulated: they are drawn from the run's seed, so a run can be
    repeated in every engine. Over a SuperLink, ``simulated=false`` takes replies as they arrive.
    Then two runs with one seed differ, and the order of arrival is in the server's snapshot.

    Args:
        count: number of replies that end a round.
        spread: standard deviation of the logarithm of a client's duration; 0 if all are equal.
        simulated: whether durations are simulated.
    """

    count: PositiveInt = 2
    spread: NonNegativeFloat = 1.0
    simulated: bool = True

    def duration(self, randomness: Randomness) -> float:
        """How long a client takes in a round; the median is 1."""
        draw = torch.randn((), generator=randomness.generator("duration"), dtype=torch.float64)
        return float((self.spread * draw).exp())
