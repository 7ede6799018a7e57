"""A stage: counts of classes over all clients, by which rare ones are weighted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet import (
    Arrays,
    Extras,
    Method,
    Payload,
    Server,
    Session,
    Stage,
    Summing,
    Term,
    embedding_size,
    fedavg,
)


def no_counts(model: nn.Module, shared: Sequence[str]) -> Mapping[str, Tensor]:
    classes, _ = embedding_size(model)
    return {"counts": torch.zeros(classes)}


class Sum(Summing):
    def term(self, reply: Payload) -> Arrays:
        return reply.extras

    def step(self, state: Payload, total: Arrays, server: Server) -> Payload:
        return Payload({name: array.astype(np.float32) for name, array in total.items()})


def count_classes(session: Session) -> None:
    batches = session.task.batches(session.samples, 128, session.randomness.generator("count"))
    labels = torch.cat([session.task.labelled(batch)[1] for batch in batches])
    classes = len(session.received["counts"])
    session.sending["counts"] = torch.bincount(labels, minlength=classes)


@dataclass(frozen=True)
class Rare:
    """``strength`` times the cross-entropy with classes weighted by how rare they are."""

    strength: float

    def __call__(self, session: Session) -> Term:
        weights = 1 / session.received["counts"].clamp(min=1)

        def term(batch: Any, output: Tensor) -> Tensor:
            rows, labels = session.task.labelled(batch)
            return self.strength * functional.cross_entropy(output[rows], labels, weights)

        return term


def rare(strength: float = 1.0) -> Method:
    """FedAvg that gives more weight to classes that are rare over all clients."""
    stage = Stage("count", Extras(no_counts, Sum()), count_classes, last=1)
    return replace(fedavg(), name="rare", penalty=Rare(strength), stages=(stage,))
