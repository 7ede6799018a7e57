r"""FedProto: share the mean embedding of each class instead of parameters.

Tan et al., *FedProto: Federated Prototype Learning across Heterogeneous Clients*, AAAI 2022.

.. math::
    C_i^{(j)} = \frac{1}{|D_{i,j}|} \sum_{(x, y) \in D_{i,j}} f_i(x), \qquad
    \bar C^{(j)} = \frac{1}{N_j} \sum_i |D_{i,j}|\, C_i^{(j)}, \qquad
    L = L_S + \lambda \sum_j \lVert C_i^{(j)} - \bar C^{(j)} \rVert^2

========================  ===================================================================
paper symbol              name here
========================  ===================================================================
:math:`f_i`               ``encode`` of the client's network
:math:`C_i, \bar C`       the extra ``prototypes``, of a client and of the server
:math:`|D_{i,j}|, N_j`    the extra ``counts``, of a client and of the server
:math:`\lambda`           ``strength``
========================  ===================================================================

All parameters are private, so networks may differ, but not the width of their embeddings. As in
the authors' program, the penalty compares each sample's embedding with the prototype of its class,
as a mean over all coordinates, and classes that no client has are left out. Clients predict with
their classifier; the paper also predicts with the nearest prototype.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from pydantic import NonNegativeFloat
from torch import Tensor, nn

from ramet.models.networks import embedding_size
from ramet.payload import Arrays, Payload, nothing
from ramet.rules.extras import Extras, are_counts
from ramet.rules.merging import Summing
from ramet.rules.method import Method
from ramet.rules.server import Server
from ramet.training.local import Session, Term

_BATCH = 128


def no_prototypes(model: nn.Module, shared: Sequence[str]) -> Mapping[str, Tensor]:  # noqa: ARG001
    """Prototypes of zeros, of no samples."""
    classes, width = embedding_size(model)
    return {"prototypes": torch.zeros(classes, width), "counts": torch.zeros(classes)}


@dataclass(frozen=True)
class PrototypeMean(Summing):
    """The mean of each class over all samples of all clients; without samples the last one."""

    of: str = "prototypes"

    def term(self, reply: Payload) -> Arrays:
        counts = reply.extras["counts"].astype(np.float64)
        return {self.of: reply.extras[self.of] * counts[:, None], "counts": counts}

    def step(self, state: Payload, total: Arrays, server: Server) -> Payload:  # noqa: ARG002
        counts, old = total["counts"], state.arrays
        means = total[self.of] / np.maximum(counts, 1)[:, None]
        means = np.where(counts[:, None] > 0, means, old[self.of]).astype(np.float32)
        known = np.where(counts > 0, counts, old["counts"]).astype(np.float32)
        return Payload({self.of: means, "counts": known})


def invalid_counts(extras: Arrays) -> str | None:
    """Check the counts, which are the weights of the prototypes."""
    return None if are_counts(extras["counts"]) else "counts has values that are not counts"


@dataclass(frozen=True)
class NearPrototypes:
    """``strength`` times the mean squared distance of embeddings from their class's prototype."""

    strength: float

    def __call__(self, session: Session) -> Term:
        prototypes, known = session.received["prototypes"], session.received["counts"] > 0

        def term(batch: Any, output: Tensor) -> Tensor:  # noqa: ARG001
            rows, labels = session.task.labelled(batch)
            embeddings = session.task.encode(session.model, batch)[rows]
            distances = (embeddings - prototypes[labels]).square().mean(dim=1)
            counted = known[labels].float()
            return self.strength * (distances @ counted) / counted.sum().clamp(min=1)

        return term


@torch.no_grad()
def send_prototypes(session: Session) -> None:
    """Send the mean embedding of each class over the training samples."""
    session.model.eval()
    sums, counts = (torch.zeros_like(session.received[n]) for n in ("prototypes", "counts"))
    order = session.randomness.generator("order of prototypes")
    for batch in session.task.batches(session.samples, _BATCH, order):
        batch = batch.to(session.device)
        rows, labels = session.task.labelled(batch)
        sums.index_add_(0, labels, session.task.encode(session.model, batch)[rows])
        counts += torch.bincount(labels, minlength=len(counts))
    means = sums / counts.clamp(min=1)[:, None]
    session.sending.update(prototypes=means, counts=counts)


def fedproto(strength: NonNegativeFloat = 1.0) -> Method:
    """Share the mean embedding of each class; all parameters are private."""
    return Method(
        name="fedproto",
        needs_classes=True,
        paper="arXiv:2105.00243",
        shared=nothing,
        penalty=NearPrototypes(strength),
        after=send_prototypes,
        extras=Extras(no_prototypes, PrototypeMean(), invalid_counts),
    )
