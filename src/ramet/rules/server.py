"""What the server knows in a round. Rules receive it, because they hold no state themselves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import nn

from ramet.errors import RametError
from ramet.randomness import Randomness

SERVER, CPU = "the server", torch.device("cpu")


def no_network() -> nn.Module:
    raise RametError("this server does not know the clients' network.")


@dataclass(frozen=True)
class Server:
    """What the server knows in a round."""

    clients: Sequence[str]
    """All clients of the run, in a fixed order."""
    randomness: Randomness
    """Random draws of this round; ``generator("purpose")`` returns a PyTorch generator."""
    network: Callable[[], nn.Module] = no_network
    """Builds a new network with the arrays that all clients start with. A rule that trains at the
    server loads the merged arrays into it. Clients must share all arrays for it."""
    shape: Any = None
    """The sizes for which the network is built."""
    device: torch.device = CPU
    """Where the network is."""
    switchable: Sequence[str] = ()
    """The shared arrays that a client may omit."""
    buffers: frozenset[str] = frozenset()
    """Names of shared arrays that are not trained, such as the variances of a batch norm. A mean is
    right for them; a step beyond it is not."""

    logged: dict[str, float] = field(default_factory=dict)
    """Numbers of this round, set with ``log``."""

    def log(self, name: str, value: float) -> None:
        """Add a number to the record of this round: ``merging/NAME`` in trackers."""
        self.logged[name] = float(value)

    @property
    def round(self) -> int:
        """The number of the round, from 1."""
        return self.randomness.round
