"""Activation rules: which clients take part in a round, and which shared arrays each must send.

A rule object holds no state: ``settle`` receives the state and returns the next one. An active
client receives the arrays that the merging rule returns for it, and may omit some of them in its
reply. With ``keep_own`` it does not receive the omitted ones either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import ClassVar, Protocol, TypeAlias, runtime_checkable

import torch
from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from ramet.options import Share
from ramet.payload import Arrays, Payload
from ramet.rules.server import Server

Asked: TypeAlias = Mapping[str, Sequence[str]]
"""The active clients of a round, each with the shared arrays that it need not send."""
ReplyScores: TypeAlias = Mapping[str, Mapping[str, float]]
"""The result of ``score`` for each client that replied."""


@runtime_checkable
class Activation(Protocol):
    """Protocol of activation rules.

    The state is a Payload, checkpointed with the merging rule's. It is empty before round 1.
    """

    asks_parts: ClassVar[bool]
    """Whether clients may be asked for only some of the arrays."""

    @property
    def keep_own(self) -> bool:
        """Whether a client keeps its own copy of omitted arrays, which are then not sent to it."""
        ...

    def ask(self, state: Payload, server: Server) -> Asked:
        """Choose the clients of this round, and the shared arrays that each need not send."""
        ...

    def score(
        self, sent: Arrays, received: Arrays, numbers: Mapping[str, float]
    ) -> Mapping[str, float]:
        """Reduce a reply to a few numbers; replies themselves are not kept.

        Args:
            sent: the shared arrays that the client was sent. In round 1 nothing is sent, so these
                are the arrays that all clients start with.
            received: the switchable arrays in the client's reply, each of which is in ``sent``.
            numbers: the numbers in the client's reply: ``weight``, ``loss`` and, from round 2 on,
                the scores (``val``, …) of the model it received, before training.
        """
        ...

    def settle(self, state: Payload, server: Server, scores: ReplyScores) -> Payload:
        """Return the state after a round with these scores."""
        ...


class WithoutMemory(ABC):
    """Base class of rules that learn nothing from replies; subclasses implement ``ask``."""

    asks_parts: ClassVar[bool] = False
    keep_own: bool = False

    @abstractmethod
    def ask(self, state: Payload, server: Server) -> Asked:
        """Choose the clients of this round, as in ``Activation``."""

    def score(
        self,
        sent: Arrays,  # noqa: ARG002
        received: Arrays,  # noqa: ARG002
        numbers: Mapping[str, float],  # noqa: ARG002
    ) -> Mapping[str, float]:
        return {}

    def settle(self, state: Payload, server: Server, scores: ReplyScores) -> Payload:  # noqa: ARG002
        return state


@dataclass(frozen=True)
class Everyone(WithoutMemory):
    """All clients and all shared arrays, every round."""

    def ask(self, state: Payload, server: Server) -> Asked:  # noqa: ARG002
        return dict.fromkeys(server.clients, ())


@dataclass(frozen=True)
class RandomClients(WithoutMemory):
    """A new random set of clients each round: ``count`` of them, or a ``fraction`` of all."""

    count: PositiveInt | None = None
    fraction: Share = 0.67

    def ask(self, state: Payload, server: Server) -> Asked:  # noqa: ARG002
        clients = server.clients
        count = self.count or max(1, round(self.fraction * len(clients)))
        order = torch.randperm(len(clients), generator=server.randomness.generator("activation"))
        return {clients[index]: () for index in sorted(order[:count].tolist())}


@dataclass(frozen=True)
class RandomTensors(WithoutMemory):
    """All clients, each asked for a new random ``fraction`` of the switchable arrays."""

    fraction: Share = 0.67
    asks_parts: ClassVar[bool] = True

    def ask(self, state: Payload, server: Server) -> Asked:  # noqa: ARG002
        generator = server.randomness.generator("activation")
        count = len(server.switchable)
        asked = round(self.fraction * count)
        return {
            client: [
                server.switchable[index]
                for index in torch.randperm(count, generator=generator)[asked:].tolist()
            ]
            for client in server.clients
        }


def requested(shared: Iterable[str], omitted: Sequence[str]) -> tuple[str, ...]:
    """Names of the shared arrays that are not omitted, in the order of ``shared``."""
    left_out = set(omitted)
    return tuple(name for name in shared if name not in left_out)
