"""The record of one exchange, which is one message to each active client and its replies."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from logging import WARNING
from typing import Any

from ramet.errors import RametError
from ramet.events import log_event
from ramet.metrics import WORK
from ramet.payload import Arrays, Payload

_TRAINING_NUMBERS = ("loss", "weight", "up", "tensors", "scalars", *WORK)


@dataclass
class Exchange:
    """What was sent and received. The closing exchange comes after the last round."""

    round: int
    rounds: int
    started: float = field(default_factory=time.monotonic)
    down: dict[str, int] = field(default_factory=dict)
    numbers: dict[str, dict[str, float]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    scores: dict[str, Mapping[str, float]] = field(default_factory=dict)
    sent: list[int] = field(default_factory=lambda: [0, 0])  # tensors and scalars, to all
    digests: dict[str, str] = field(default_factory=dict)
    retries: int = 0

    @property
    def train(self) -> bool:
        """Whether clients train; in the closing exchange they only evaluate."""
        return self.round <= self.rounds

    def training_half(self) -> dict[str, Any]:
        """The first half of the round's record; the next exchange evaluates and adds the rest."""
        return {
            "round": self.round,
            "rounds": self.rounds,
            "trained": {
                client: {name: numbers[name] for name in _TRAINING_NUMBERS if name in numbers}
                for client, numbers in sorted(self.numbers.items())
            },
            "failed": dict(sorted(self.failed.items())),
            "seconds": time.monotonic() - self.started,
            "retries": self.retries,
            "memory": int(max((n.get("memory", 0) for n in self.numbers.values()), default=0)),
        }

    def evaluation_half(self) -> dict[str, Any]:
        """The second half of the record of the previous round."""
        dropped = {*_TRAINING_NUMBERS, "memory"}
        return {
            "evaluated": {
                client: {name: value for name, value in numbers.items() if name not in dropped}
                for client, numbers in sorted(self.numbers.items())
            },
            "down": dict(sorted(self.down.items())),
            "tensors_down": self.sent[0],
            "scalars_down": self.sent[1],
        }

    def commit_facts(self) -> dict[str, Any]:
        """What is logged of a round before it is evaluated."""
        seconds = round(time.monotonic() - self.started, 3)
        return {"round": self.round, "seconds": seconds, "answered": sorted(self.numbers)}

    def add_fault(self, client: str, reason: str, received: bool) -> None:
        self.failed[client] = str(reason)
        event = "reply refused" if received else "no reply"
        log_event(WARNING, event, round=self.round, client=client, reason=reason)

    def add_request(self, client: str, message: Payload) -> None:
        self.down[client] = self.down.get(client, 0) + message.nbytes
        self.sent[0] += len(message.arrays)
        self.sent[1] += _scalars(message.arrays)

    def add_reply(self, client: str, reply: Payload) -> None:
        counts = {
            "up": reply.nbytes,
            "tensors": len(reply.arrays),
            "scalars": _scalars(reply.arrays),
        }
        self.numbers[client] = {**reply.numbers, **counts}
        self.failed.pop(client, None)
        if "private" in reply.notes:
            self.digests[client] = reply.notes["private"]

    def below(self, quorum: int, active: int) -> RametError:
        """The error for too few valid replies from the active clients."""
        reasons = "; ".join(f"{client}: {reason}" for client, reason in self.failed.items())
        exchange = f"exchange {self.round}" if self.train else "the closing exchange"
        committed = (
            "The round is not committed."
            if self.train
            else f"All {self.rounds} rounds are committed, but the final model is not evaluated."
        )
        return RametError(
            f"{len(self.numbers)} of {active} clients sent a valid reply in {exchange}, below the "
            f"quorum of {quorum} ({reasons or 'no client was asked'}). {committed} If clients were "
            "down, continue with `ramet resume`. If training diverged, start a new run with a "
            "smaller lr."
        )


def _scalars(arrays: Arrays) -> int:
    return sum(array.size for array in arrays.values())
