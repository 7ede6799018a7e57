"""Extras: the mean embedding over all clients, and a penalty that keeps near it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from ramet import (
    Arrays,
    Extras,
    Method,
    Payload,
    Server,
    Session,
    Summing,
    Term,
    embedding_size,
    fedavg,
)


def origin(model: nn.Module, shared: Sequence[str]) -> Mapping[str, Tensor]:
    _, width = embedding_size(model)
    return {"centre": torch.zeros(width)}


class MeanCentre(Summing):
    def term(self, reply: Payload) -> Arrays:
        weight = np.asarray(reply.numbers["weight"])
        return {"centre": weight * reply.extras["centre"], "weight": weight}

    def step(self, state: Payload, total: Arrays, server: Server) -> Payload:
        return Payload({"centre": (total["centre"] / total["weight"]).astype(np.float32)})


@dataclass(frozen=True)
class NearCentre:
    """``strength`` times the squared distance of a batch's mean embedding from the centre."""

    strength: float

    def __call__(self, session: Session) -> Term:
        def term(batch: Any, output: Tensor) -> Tensor:
            mean = session.task.encode(session.model, batch).mean(dim=0)
            return self.strength * (mean - session.received["centre"]).square().mean()

        return term


@torch.no_grad()
def send_centre(session: Session) -> None:
    session.model.eval()
    batches = session.task.batches(session.samples, 128, session.randomness.generator("centre"))
    parts = [session.task.encode(session.model, batch.to(session.device)) for batch in batches]
    session.sending["centre"] = torch.cat(parts).mean(dim=0)


def centre(strength: float = 0.1) -> Method:
    """FedAvg whose clients keep their embeddings near a common centre."""
    near, extras = NearCentre(strength), Extras(origin, MeanCentre())
    return replace(fedavg(), name="centre", penalty=near, after=send_centre, extras=extras)
