"""Memory: clients evaluate and keep a moving average of their networks."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace

from torch import Tensor, nn

from ramet import Method, Session, fedavg


@dataclass(frozen=True)
class Smooth:
    """Keep a moving average of the client's parameters."""

    decay: float

    def __call__(self, session: Session) -> None:
        for name, now in session.model.named_parameters():
            old = session.memory.get(name, now)
            session.memory[name] = (self.decay * old + (1 - self.decay) * now).detach()


def smoothed(model: nn.Module, memory: Mapping[str, Tensor]) -> nn.Module:
    own = deepcopy(model)
    own.load_state_dict({**model.state_dict(), **memory})
    return own


def smooth(decay: float = 0.5) -> Method:
    """FedAvg whose clients use a moving average of their networks."""
    return replace(fedavg(), name="smooth", after=Smooth(decay), personal=smoothed)
