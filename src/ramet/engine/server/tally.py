"""What was sent and received in an exchange, as a value; those of a round add up."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from logging import WARNING
from typing import Any, TypeAlias

from ramet.engine.messages import PRIVATE_STATE
from ramet.engine.secure_messages import ANSWER
from ramet.engine.server.plan import Plan
from ramet.errors import RametError, one_line
from ramet.events import log_event
from ramet.metrics import WORK
from ramet.payload import Payload
from ramet.training.local import LOGGED

COUNTS = ("up", "tensors", "scalars")
"""What is counted of each client's replies."""
TRAINING_NUMBERS = ("loss", "weight", *COUNTS, *WORK)
ByClient: TypeAlias = Mapping[str, Mapping[str, float]]


@dataclass(frozen=True)
class Tally:
    """Counts of messages, and the numbers in them, by client."""

    seconds: float = 0.0
    retries: int = 0
    """How often missing clients were asked again."""
    sent: tuple[int, int] = (0, 0)
    """Tensors and scalars, to all clients."""
    down: Mapping[str, int] = field(default_factory=dict)
    """Bytes to each client, also if it did not answer."""
    up: ByClient = field(default_factory=dict)
    """The ``COUNTS`` of each client's replies."""
    numbers: ByClient = field(default_factory=dict)
    """The numbers in the last reply of each client that answered."""
    asked: Mapping[str, int] = field(default_factory=dict)
    """The round of the message that each reply answers."""
    scores: ByClient = field(default_factory=dict)
    """The activation's scores of replies."""
    digests: Mapping[str, str] = field(default_factory=dict)
    """Digests of clients' private states, after the last round of a simulation."""
    signed: Mapping[str, str] = field(default_factory=dict)
    """What clients have signed of their replies, in a run that they verify."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why clients did not answer, or why their replies were refused."""
    means: Mapping[str, float] = field(default_factory=dict)
    """The means of clients' numbers, if the server learns nothing else."""

    def __add__(self, later: Tally) -> Tally:
        failed = {c: reason for c, reason in self.failed.items() if c not in later.numbers}
        return Tally(
            seconds=self.seconds + later.seconds,
            retries=self.retries + later.retries,
            sent=(self.sent[0] + later.sent[0], self.sent[1] + later.sent[1]),
            down=_added(self.down, later.down),
            up={**self.up, **{c: _added(self.up.get(c, {}), own) for c, own in later.up.items()}},
            numbers={**self.numbers, **later.numbers},
            asked={**self.asked, **later.asked},
            scores={**self.scores, **later.scores},
            digests={**self.digests, **later.digests},
            signed={**self.signed, **later.signed},
            failed={**failed, **later.failed},
            means={**self.means, **later.means},
        )

    def traffic(self) -> Tally:
        """Without what the replies said: the messages of a stage before training."""
        return replace(self, numbers={}, asked={}, scores={}, digests={}, signed={}, means={})

    def only_down(self) -> Tally:
        """What was sent, if there was anything in it."""
        return Tally(down=self.down, sent=self.sent) if self.sent[0] else Tally()

    def facts(self) -> dict[str, Any]:
        """As JSON values, without what is empty."""
        return {name: fact for name, fact in asdict(self).items() if fact}

    @staticmethod
    def restored(facts: Mapping[str, Any]) -> Tally:
        tensors, scalars = facts.get("sent", (0, 0))
        return Tally(**{**facts, "sent": (tensors, scalars)})

    def first_half(self) -> dict[str, Any]:
        """The first half of the round's record; the next exchange evaluates and adds the rest."""
        trained = {client: {**own, **self.up[client]} for client, own in self.numbers.items()}
        return {
            "trained": {
                client: {name: numbers[name] for name in _of_training(numbers)}
                for client, numbers in sorted(trained.items())
            },
            "failed": dict(sorted(self.failed.items())),
            "seconds": self.seconds,
            "retries": self.retries,
            "trained_mean": {n: v for n, v in self.means.items() if n in TRAINING_NUMBERS},
            "memory": int(max((n.get("memory", 0) for n in self.numbers.values()), default=0)),
        }

    def evaluated(self, after: int = 0) -> dict[str, dict[str, float]]:
        """The scores in replies to messages of later rounds, by client."""
        dropped = {*TRAINING_NUMBERS, "memory"}
        return {
            client: {n: v for n, v in numbers.items() if n not in dropped | _logged(numbers)}
            for client, numbers in sorted(self.numbers.items())
            if self.asked[client] > after
            and ("val" in numbers or "test" in numbers)  # a site may withhold its scores
        }

    def second_half(self) -> dict[str, Any]:
        """The second half of the record of the previous round."""
        dropped = {*TRAINING_NUMBERS, "memory"}
        return {
            "evaluated_mean": {n: v for n, v in self.means.items() if n not in dropped},
            "evaluated": self.evaluated(after=1),  # in round 1, it is what the run started with
            "down": dict(sorted(self.down.items())),
            "tensors_down": self.sent[0],
            "scalars_down": self.sent[1],
        }


class QuorumError(RametError):
    """Too few clients have sent a valid reply."""

    def __init__(self, plan: Plan, tally: Tally, needed: int, asked: int) -> None:
        self.tally = tally
        reasons = "; ".join(f"{client}: {reason}" for client, reason in tally.failed.items())
        exchange = f"exchange {plan.round}" if plan.train else "the closing exchange"
        if plan.stage is not None:
            exchange = f"the stage '{plan.stage.name}' of round {plan.round}"
        committed = (
            "The round is not committed."
            if plan.train
            else f"All {plan.last} rounds are committed, but the final model is not evaluated."
        )
        super().__init__(
            f"{len(tally.numbers)} of {asked} clients sent a valid reply in {exchange}, below the "
            f"quorum of {needed} ({reasons or 'no client was asked'}). {committed} If clients were "
            "down, continue with `ramet resume`. If training diverged, start a new run with a "
            "smaller lr."
        )


class Counting:
    """Counts the messages of an exchange as they come and go."""

    def __init__(self, number: int) -> None:
        self._round, self._started = number, time.monotonic()
        self.retries, self.answered = 0, dict[str, Mapping[str, float]]()
        self._tallies: list[Tally] = []
        self._down: dict[str, int] = {}
        self._sent = [0, 0]
        self._up: dict[str, Mapping[str, float]] = {}
        self._asked: dict[str, int] = {}
        self._scores: dict[str, Mapping[str, float]] = {}
        self._digests: dict[str, str] = {}
        self._signed: dict[str, str] = {}
        self.failed: dict[str, str] = {}

    def request(self, client: str, message: Payload) -> None:
        self._down[client] = self._down.get(client, 0) + message.nbytes
        self._sent[0] += len(message.tensors)
        self._sent[1] += _scalars(message)

    def reply(
        self, client: str, reply: Payload, asked: int, scores: Mapping[str, float] | None = None
    ) -> None:
        """Count a valid reply to the message of round ``asked``."""
        counts = dict(zip(COUNTS, (reply.nbytes, len(reply.tensors), _scalars(reply)), strict=True))
        self._up[client] = _added(self._up.get(client, {}), counts)
        self.answered[client] = {n: v for n, v in reply.numbers.items() if n not in COUNTS}
        self._asked[client] = asked
        self.failed.pop(client, None)
        if scores is not None:
            self._scores[client] = scores
        if PRIVATE_STATE in reply.notes:
            self._digests[client] = reply.notes[PRIVATE_STATE]
        if ANSWER in reply.notes:
            self._signed[client] = reply.notes[ANSWER]

    def fault(self, client: str, reason: str, received: bool) -> None:
        self.failed[client] = one_line(reason)
        event = "reply refused" if received else "no reply"
        log_event(WARNING, event, round=self._round, client=client, reason=self.failed[client])

    def others(self, tally: Tally) -> None:
        """Add what another process has counted."""
        self._tallies.append(tally)
        self.answered |= tally.numbers
        self.failed = {c: why for c, why in self.failed.items() if c not in tally.numbers}

    def tally(self) -> Tally:
        """What was counted so far."""
        own = Tally(
            seconds=time.monotonic() - self._started,
            retries=self.retries,
            sent=(self._sent[0], self._sent[1]),
            down=self._down,
            up=self._up,
            numbers={client: self.answered[client] for client in self._asked},
            asked=self._asked,
            scores=self._scores,
            digests=self._digests,
            signed=self._signed,
            failed=self.failed,
        )
        return sum(self._tallies, own)


def difference(client: str, message: Payload, other: Payload) -> Tally:
    """How much more is sent to a client with another message."""
    tensors = len(other.tensors) - len(message.tensors)
    sent = tensors, _scalars(other) - _scalars(message)
    return Tally(sent=sent, down={client: other.nbytes - message.nbytes})


def _added(one: Mapping[str, Any], other: Mapping[str, Any]) -> dict[str, Any]:
    return {**one, **{name: one.get(name, 0) + number for name, number in other.items()}}


def _of_training(numbers: Mapping[str, float]) -> list[str]:
    """The names of numbers about training, in a fixed order; what was logged comes last."""
    return [*(name for name in TRAINING_NUMBERS if name in numbers), *sorted(_logged(numbers))]


def _logged(numbers: Mapping[str, float]) -> set[str]:
    return {name for name in numbers if name.startswith(LOGGED)}


def _scalars(message: Payload) -> int:
    return sum(array.size for array in message.tensors)
