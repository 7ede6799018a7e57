"""Who takes part in a round, and which of the shared arrays each is asked for.

A rule takes state in and gives state out. Every client that takes part is sent all that is shared;
what it may be spared is sending some of it back, and with ``keep_own`` also getting it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import torch
from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from ramet.options import Share
from ramet.payload import Arrays, Payload
from ramet.randomness import Randomness

Spared: TypeAlias = Mapping[str, Sequence[str]]
"""The clients of a round, each with the shared arrays that it is not asked for."""
Scores: TypeAlias = Mapping[str, Mapping[str, float]]
"""What ``score`` gave for each client that replied."""


@plain_dataclass(frozen=True)
class Choice:
    """What a rule may choose from in a round."""

    clients: Sequence[str]
    """All clients of the run, in one order."""
    switchable: Sequence[str]
    """The shared arrays that a client may be spared."""
    randomness: Randomness
    """Draws of this round: ``choice.randomness.generator("what for")`` is PyTorch's generator."""


@runtime_checkable
class Activation(Protocol):
    """State is a Payload, checkpointed with the merging's; it is empty before round 1."""

    asks_parts: ClassVar[bool]
    """Whether a client may be spared some of the arrays."""

    @property
    def keep_own(self) -> bool:
        """Whether a client goes on with its own of what it is spared, so that it is not sent it."""
        ...

    def ask(self, state: Payload, choice: Choice) -> Spared:
        """The clients of this round, each with the shared arrays that it is not asked for."""
        ...

    def score(
        self, sent: Arrays, came: Arrays, numbers: Mapping[str, float]
    ) -> Mapping[str, float]:
        """What is to be remembered of a reply: a few numbers, as replies are not kept.

        Args:
            sent: what is shared, as the server had it when the client was asked.
            came: the switchable arrays that the client sent back.
            numbers: what the client told besides: ``weight``, ``loss`` and, from round 2 on, its
                scores (``val``, …) of what it was sent, before it trained.
        """
        ...

    def settle(self, state: Payload, choice: Choice, scores: Scores) -> Payload:
        """The state after a round in which these scores were given."""
        ...


class WithoutMemory(ABC):
    """A rule that learns nothing from replies: only ``ask`` is to be written."""

    asks_parts: ClassVar[bool] = False
    keep_own: bool = False

    @abstractmethod
    def ask(self, state: Payload, choice: Choice) -> Spared:
        """As in every activation."""

    def score(
        self,
        sent: Arrays,  # noqa: ARG002
        came: Arrays,  # noqa: ARG002
        numbers: Mapping[str, float],  # noqa: ARG002
    ) -> Mapping[str, float]:
        return {}

    def settle(self, state: Payload, choice: Choice, scores: Scores) -> Payload:  # noqa: ARG002
        return state


@dataclass(frozen=True)
class Everyone(WithoutMemory):
    """All clients, every round, with all that is shared."""

    def ask(self, state: Payload, choice: Choice) -> Spared:  # noqa: ARG002
        return dict.fromkeys(choice.clients, ())


@dataclass(frozen=True)
class RandomClients(WithoutMemory):
    """A fresh draw of clients each round: ``count`` of them, or else a ``fraction`` of all."""

    count: PositiveInt | None = None
    fraction: Share = 0.67

    def ask(self, state: Payload, choice: Choice) -> Spared:  # noqa: ARG002
        clients = choice.clients
        count = self.count or max(1, round(self.fraction * len(clients)))
        order = torch.randperm(len(clients), generator=choice.randomness.generator("activation"))
        return {clients[place]: () for place in sorted(order[:count].tolist())}


@dataclass(frozen=True)
class RandomTensors(WithoutMemory):
    """All clients, each asked for a fresh draw of a ``fraction`` of the switchable arrays."""

    fraction: Share = 0.67
    asks_parts: ClassVar[bool] = True

    def ask(self, state: Payload, choice: Choice) -> Spared:  # noqa: ARG002
        draw = choice.randomness.generator("activation")
        count = len(choice.switchable)
        kept = round(self.fraction * count)
        return {
            client: [
                choice.switchable[place]
                for place in torch.randperm(count, generator=draw)[kept:].tolist()
            ]
            for client in choice.clients
        }


def asked_of(shared: Iterable[str], spared: Sequence[str]) -> tuple[str, ...]:
    """What is left to be asked for, in its usual order."""
    without = set(spared)
    return tuple(name for name in shared if name not in without)
