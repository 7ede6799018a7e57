"""Who takes part in a round."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import torch
from pydantic import PositiveInt
from pydantic.dataclasses import dataclass

from ramet.randomness import Randomness


class Activation(Protocol):
    """Chooses the clients of a round; draws come from the server's randomness of that round."""

    def ask(self, clients: Sequence[str], randomness: Randomness) -> Sequence[str]: ...


@dataclass(frozen=True)
class Everyone:
    """All clients, every round."""

    def ask(self, clients: Sequence[str], randomness: Randomness) -> Sequence[str]:  # noqa: ARG002
        return clients


@dataclass(frozen=True)
class RandomClients:
    """A fresh draw of ``count`` clients each round."""

    count: PositiveInt

    def ask(self, clients: Sequence[str], randomness: Randomness) -> Sequence[str]:
        order = torch.randperm(len(clients), generator=randomness.generator("activation"))
        return [clients[place] for place in sorted(order[: self.count].tolist())]
