"""A message to a client, together with what the client answers it with."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
from functools import cached_property

import torch

from ramet.engine.start import start_extras
from ramet.engine.store.client_state import ClientState
from ramet.errors import RametError
from ramet.payload import Array, Arrays, Payload, everything
from ramet.randomness import Randomness
from ramet.rules.method import AssembledMethod
from ramet.tasks import Samples, Shape


class NotSharedError(RametError):
    """An array that is not shared was about to leave the site or to be loaded."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a client is asked, and what it knows besides its state."""

    client: str
    method: AssembledMethod
    samples: Samples
    seed: int
    device: torch.device
    message: Payload
    sent: Arrays = field(default_factory=dict)
    """The shared parameters that are being trained, as they were before."""

    @property
    def round(self) -> int:
        return int(self.message.numbers["round"])

    @property
    def stage(self) -> str | None:
        """The name of the stage, if one is asked for."""
        return self.message.notes.get("stage")

    @property
    def trains(self) -> bool:
        """Whether the client is asked to train: not for a stage, and not only to evaluate."""
        return bool(self.message.numbers["train"]) and self.stage is None

    @property
    def randomness(self) -> Randomness:
        """Random draws of this client in this round."""
        return Randomness(self.seed, self.client, self.round)

    @property
    def shape(self) -> Shape:
        shape: Shape = self.method.task.shape(self.samples)
        return shape

    @cached_property
    def start_extras(self) -> dict[str, dict[str, Array]]:
        """The extras before round 1, by the exchange in which clients send them."""
        return start_extras(self.method, self.shape, self.seed)

    def opened(self, state: ClientState, sent: Arrays) -> Opened:
        """The request with the client's state."""
        own = {item.name: getattr(self, item.name) for item in fields(Request)}
        return Opened(**{**own, "sent": sent}, state=state)

    def check_shared(self, arrays: Arrays, action: str) -> None:
        """Refuse to ``send`` or to ``accept`` arrays that the method does not declare."""
        method = self.method
        way, of_way = ("up", method.up) if action == "send" else ("down", method.down)
        for name in arrays:
            if name in method.shared and name in of_way:
                continue
            limited = "" if of_way == everything else f", of which clients {action} {of_way}"
            missing = way if name in method.shared else "shared"
            raise NotSharedError(
                f"client {self.client} refuses to {action} '{name}': {method.name} shares "
                f"{method.shared}{limited}. Declare it in the method's `{missing}`."
            )


@dataclass(frozen=True, kw_only=True)
class Opened(Request):
    """A request with the client's state, which is saved once the reply is known."""

    state: ClientState
