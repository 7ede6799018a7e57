"""The record of one exchange, which is one message to each active client and its replies."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field
from logging import WARNING
from typing import TYPE_CHECKING, Any

from ramet.errors import RametError, one_line
from ramet.events import log_event
from ramet.metrics import WORK
from ramet.payload import Payload
from ramet.rules.extras import TRAINING, Stage

if TYPE_CHECKING:
    from ramet.engine.server.regions import RegionalFacts

COUNTS = ("up", "tensors", "scalars")
"""What is counted of each client's reply."""
_TRAINING_NUMBERS = ("loss", "weight", *COUNTS, *WORK)
_ELAPSED = "elapsed"


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
    asked: dict[str, int] = field(default_factory=dict)
    """The round of the message that each reply answers."""
    stage: Stage | None = None
    """The stage before training, if this is the exchange of one."""
    candidates: Sequence[int] = ()
    """Earlier rounds that may be the best; clients keep their models of these."""
    stages_up: dict[str, dict[str, float]] = field(default_factory=dict)
    """What clients have sent in earlier stages of the round."""
    means: dict[str, float] = field(default_factory=dict)
    """The means of clients' numbers, if the server learns nothing else."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Notes that are the same in all messages, such as the members of a secure sum."""

    @staticmethod
    def after(traffic: Mapping[str, Any], round: int, rounds: int, **facts: Any) -> Exchange:
        """A round's exchange, which also counts earlier messages that no record has counted."""
        return Exchange(round, rounds, **facts, **deepcopy(dict(traffic)))

    def traffic(self) -> dict[str, Any]:
        """Counts of all messages so far, as JSON values."""
        return {
            "down": self.down,
            "sent": self.sent,
            "stages_up": self.stages_up,
            "failed": self.failed,
        }

    def uncounted_down(self) -> dict[str, Any]:
        """What was sent in round 1, whose record also counts the messages of round 2."""
        return {"down": self.down, "sent": self.sent} if self.sent[0] else {}

    def add_stage(self, stage: Exchange) -> None:
        """Count the messages of a stage."""
        for client, number in stage.down.items():
            self.down[client] = self.down.get(client, 0) + number
        self.sent = [mine + its for mine, its in zip(self.sent, stage.sent, strict=True)]
        self.failed |= stage.failed
        for client, numbers in stage.numbers.items():
            before = self.stages_up.get(client, {})
            self.stages_up[client] = {n: before.get(n, 0) + numbers[n] for n in COUNTS}

    def add_later(self, step: Exchange) -> None:
        """Count the messages of a step that follows the replies of this exchange."""
        for client, number in step.down.items():
            self.down[client] = self.down.get(client, 0) + number
        self.sent = [mine + its for mine, its in zip(self.sent, step.sent, strict=True)]
        for client, numbers in step.numbers.items():
            own = self.numbers[client]
            self.numbers[client] = {**own, **{n: own[n] + numbers[n] for n in COUNTS}}

    def add_region(self, facts: RegionalFacts) -> None:
        """Count the messages between a regional coordinator and its clients."""
        for client, number in facts.down.items():
            self.down[client] = self.down.get(client, 0) + number
        self.sent = [mine + its for mine, its in zip(self.sent, facts.sent, strict=True)]
        self.failed |= {client: one_line(reason) for client, reason in facts.failed.items()}
        for client, numbers in facts.numbers.items():
            earlier = self.stages_up.get(client, {})
            counts = {name: numbers[name] + int(earlier.get(name, 0)) for name in COUNTS}
            self.numbers[client] = {**numbers, **counts}
            self.failed.pop(client, None)
        self.asked |= facts.asked
        self.digests |= facts.digests
        self.scores |= facts.scores

    def facts(self) -> dict[str, Any]:
        """What was sent and received, as JSON values."""
        names = ("down", "numbers", "failed", "sent", "digests", "retries", "asked", "stages_up")
        return {name: getattr(self, name) for name in names} | {_ELAPSED: self.seconds}

    @staticmethod
    def restored(round: int, rounds: int, facts: Mapping[str, Any]) -> Exchange:
        """An exchange that goes on from its facts, perhaps in another process."""
        known = {name: fact for name, fact in facts.items() if name != _ELAPSED}
        return Exchange(round, rounds, time.monotonic() - facts[_ELAPSED], **known)

    @property
    def seconds(self) -> float:
        """The time since the exchange began."""
        return time.monotonic() - self.started

    @property
    def key(self) -> str:
        """The name of the exchange among those of a round."""
        return TRAINING if self.stage is None else self.stage.name

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
            "seconds": self.seconds,
            "retries": self.retries,
            "trained_mean": {n: v for n, v in self.means.items() if n in _TRAINING_NUMBERS},
            "memory": int(max((n.get("memory", 0) for n in self.numbers.values()), default=0)),
        }

    def evaluation_half(self) -> dict[str, Any]:
        """The second half of the record of the previous round."""
        dropped = {*_TRAINING_NUMBERS, "memory"}
        return {
            "evaluated_mean": {n: v for n, v in self.means.items() if n not in dropped},
            "evaluated": {
                client: {name: value for name, value in numbers.items() if name not in dropped}
                for client, numbers in sorted(self.numbers.items())
                if self.asked[client] > 1  # before that there was nothing to evaluate
                and ("val" in numbers or "test" in numbers)  # a site may withhold its scores
            },
            "down": dict(sorted(self.down.items())),
            "tensors_down": self.sent[0],
            "scalars_down": self.sent[1],
        }

    def commit_facts(self) -> dict[str, Any]:
        """What is logged of a round before it is evaluated."""
        seconds = round(self.seconds, 3)
        return {"round": self.round, "seconds": seconds, "answered": sorted(self.numbers)}

    def add_fault(self, client: str, reason: str, received: bool) -> None:
        self.failed[client] = one_line(reason)
        event = "reply refused" if received else "no reply"
        log_event(WARNING, event, round=self.round, client=client, reason=self.failed[client])

    def add_request(self, client: str, message: Payload) -> None:
        self.down[client] = self.down.get(client, 0) + message.nbytes
        self.sent[0] += len(message.tensors)
        self.sent[1] += _scalars(message)

    def add_reply(self, client: str, reply: Payload, asked: int) -> None:
        """Count a reply to the message of round ``asked``."""
        self.asked[client] = asked
        counts = {
            "up": reply.nbytes,
            "tensors": len(reply.tensors),
            "scalars": _scalars(reply),
        }
        earlier = self.stages_up.get(client, {})
        counts = {name: count + int(earlier.get(name, 0)) for name, count in counts.items()}
        self.numbers[client] = {**reply.numbers, **counts}
        self.failed.pop(client, None)
        if "private" in reply.notes:
            self.digests[client] = reply.notes["private"]

    def drop_means(self, fault: Callable[[Mapping[str, float]], str | None]) -> None:
        """Leave out means that cannot be right; whose number is to blame cannot be known."""
        for name, mean in [*self.means.items()]:
            if reason := fault({name: mean}):
                del self.means[name]
                log_event(WARNING, "mean refused", round=self.round, reason=reason)

    def below(self, quorum: int, active: int) -> RametError:
        """The error for too few valid replies from the active clients."""
        reasons = "; ".join(f"{client}: {reason}" for client, reason in self.failed.items())
        exchange = f"exchange {self.round}" if self.train else "the closing exchange"
        if self.stage is not None:
            exchange = f"the stage '{self.stage.name}' of round {self.round}"
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


def _scalars(message: Payload) -> int:
    return sum(array.size for array in message.tensors)
