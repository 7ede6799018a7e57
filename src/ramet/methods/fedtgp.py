r"""FedTGP: the server trains prototypes of classes that keep away from each other.

Zhang, Liu, Hua and Cao, *FedTGP: Trainable Global Prototypes with Adaptive-Margin-Enhanced
Contrastive Learning for Data and Model Heterogeneity in Federated Learning*, AAAI 2024.

As in FedProto, clients share the mean embedding of each of their classes instead of parameters.
Their mean over clients would blur the classes. Instead the server trains its own prototypes, each
the output of a small network for one trainable vector, to be nearest to the prototypes of their
class by a margin:

.. math::
    L_P = \sum_{i, c} -\log \frac{e^{-(\phi(P_i^c, \hat P^c) + \delta)}}
    {e^{-(\phi(P_i^c, \hat P^c) + \delta)} + \sum_{c' \neq c} e^{-\phi(P_i^c, \hat P^{c'})}},
    \qquad L_i = L + \lambda\, \phi(f_i(x), \hat P^y)

==========================  =============================================================
paper symbol                name here
==========================  =============================================================
:math:`P_i^c`               the extra ``prototypes`` of a client
:math:`\hat P^c`            the extra ``prototypes`` that clients are sent
:math:`\check P^c, F`       ``points`` and the layers of ``TrainablePrototypes``
:math:`\phi`                the Euclidean distance; at clients the mean squared one
:math:`\delta, \tau`        ``margin``, ``largest_margin``
:math:`S`                   ``server_epochs``
:math:`\lambda`             ``strength``
==========================  =============================================================

As in the authors' program, the margin is the largest distance of a class from its nearest other
class, between means over clients, and at most ``largest_margin``; clients use FedProto's penalty.
Defaults are those of the authors' command. Their program predicts with the nearest prototype; here
clients predict with their classifier.

All parameters are private. ``prototypes`` and ``counts``, which is 1 for a class that the client
has, leave a site. The server compares single prototypes, so they cannot be summed securely.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from ramet.methods.fedproto import NearPrototypes, no_prototypes, send_prototypes
from ramet.payload import Arrays, Payload, nothing, under
from ramet.rules.extras import Extras
from ramet.rules.merging import Comparing
from ramet.rules.method import Method
from ramet.rules.server import Server
from ramet.training.local import LocalTraining, Session, descend

_NETWORK = "network/"


class TrainablePrototypes(nn.Module):
    """One prototype for each class, as the output of two layers for a trainable vector."""

    def __init__(self, classes: int, width: int) -> None:
        super().__init__()
        self.points = nn.Parameter(torch.randn(classes, width))
        self.hidden = nn.Linear(width, width)
        self.output = nn.Linear(width, width)

    def forward(self) -> Tensor:  # [classes, width]
        prototypes: Tensor = self.output(self.hidden(self.points).relu())
        return prototypes


@dataclass(frozen=True)
class ContrastivePrototypes(Comparing):
    """Prototypes that the server trains to be nearest to the clients' ones of their class."""

    epochs: int
    lr: float
    batch_size: int
    largest_margin: float

    def compared(self, state: Payload, replies: Mapping[str, Payload], server: Server) -> Payload:
        points, labels = clients_prototypes(replies)
        if not len(labels):
            return state
        network = _network(state, server)
        self._train(network, points, labels, server)
        prototypes = network().detach().numpy()
        known = np.ones_like(state.arrays["counts"])
        trained = {_NETWORK + name: value.numpy() for name, value in network.state_dict().items()}
        return Payload({"prototypes": prototypes, "counts": known, **trained})

    def _train(self, network: nn.Module, points: Tensor, labels: Tensor, server: Server) -> None:
        distance = min(margin(points, labels), self.largest_margin)
        optimiser = LocalTraining(self.lr, 0.0, algorithm="sgd").optimiser(network)
        for epoch in range(self.epochs):
            generator = server.randomness.generator(f"order of epoch {epoch}")
            order = torch.randperm(len(labels), generator=generator)
            for rows in torch.split(order, self.batch_size):
                descend(optimiser, contrast(points[rows], labels[rows], network(), distance))


def clients_prototypes(replies: Mapping[str, Payload]) -> tuple[Tensor, Tensor]:
    """The prototypes of all clients, [rows, width], and their classes, [rows]."""
    extras = [reply.extras for reply in replies.values()]
    points = np.concatenate([one["prototypes"][one["counts"] > 0] for one in extras])
    labels = np.concatenate([np.flatnonzero(one["counts"]) for one in extras])
    return torch.from_numpy(points), torch.from_numpy(labels)


def margin(points: Tensor, labels: Tensor) -> float:
    """The largest distance of a class's mean from its nearest other one; 0 for one class."""
    centres = torch.stack([points[labels == label].mean(dim=0) for label in torch.unique(labels)])
    if len(centres) == 1:
        return 0.0
    return float(_distances(centres, centres).fill_diagonal_(torch.inf).min(dim=1).values.max())


def contrast(points: Tensor, labels: Tensor, prototypes: Tensor, distance: float) -> Tensor:
    """The cross-entropy of negative distances, with a margin added to the one that is right."""
    right = functional.one_hot(labels, len(prototypes))
    return functional.cross_entropy(-(_distances(points, prototypes) + distance * right), labels)


def _distances(first: Tensor, second: Tensor) -> Tensor:
    return torch.cdist(first, second, compute_mode="donot_use_mm_for_euclid_dist")


def _network(state: Payload, server: Server) -> TrainablePrototypes:
    """The network of the last round; in the first one a new one."""
    with server.randomness.torch_draws("prototypes"):
        network = TrainablePrototypes(*state.arrays["prototypes"].shape)
    last = under(_NETWORK, state.arrays)
    if last:
        network.load_state_dict({name: torch.tensor(array) for name, array in last.items()})
    return network


def send_prototypes_without_counts(session: Session) -> None:
    """Send the mean embedding of each class, and which classes there are."""
    send_prototypes(session)
    session.sending["counts"] = session.sending["counts"].clamp(max=1)


def invalid_marks(extras: Arrays) -> str | None:
    """Check which classes a client has."""
    return None if np.isin(extras["counts"], (0, 1)).all() else "counts has values besides 0 and 1"


def fedtgp(
    strength: NonNegativeFloat = 10.0,
    server_epochs: PositiveInt = 100,
    server_lr: PositiveFloat = 0.01,
    server_batch: PositiveInt = 10,
    largest_margin: NonNegativeFloat = 100.0,
) -> Method:
    """FedProto with prototypes that the server trains to keep away from each other."""
    rule = ContrastivePrototypes(server_epochs, server_lr, server_batch, largest_margin)
    return Method(
        name="fedtgp",
        needs_classes=True,
        paper="arXiv:2401.03230",
        shared=nothing,
        penalty=NearPrototypes(strength),
        after=send_prototypes_without_counts,
        extras=Extras(no_prototypes, rule, invalid_marks),
    )
