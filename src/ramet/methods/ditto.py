r"""Ditto: besides the common model, each client trains a personal one that stays near it.

Li et al., *Ditto: Fair and Robust Federated Learning Through Personalization*, ICML 2021.

.. math:: \min_{v_k}\; F_k(v_k) + \frac{\lambda}{2} \lVert v_k - w^t \rVert^2

=====================  =============================================================
paper symbol           name here
=====================  =============================================================
:math:`w^t`            the shared parameters as received, trained as in FedAvg
:math:`v_k`            the client's memory: all arrays of its personal network
:math:`\lambda`        ``strength``
=====================  =============================================================

Clients evaluate and keep their personal network. Its optimiser starts anew in every round; the
paper uses plain SGD, which has no state.
"""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass, replace

from pydantic import NonNegativeFloat
from torch import Tensor, nn

from ramet.methods.fedavg import fedavg
from ramet.methods.fedprox import Proximal
from ramet.rules.method import Method
from ramet.training.local import Session


def personal_network(model: nn.Module, memory: Mapping[str, Tensor]) -> nn.Module:
    """The client's personal network; a copy of the common one if there is none yet."""
    own = deepcopy(model)
    own.load_state_dict(memory or model.state_dict())
    return own


@dataclass(frozen=True)
class TrainPersonal:
    """Train the personal network for as long as the common one, near the received parameters."""

    strength: float

    def __call__(self, session: Session) -> None:
        model = personal_network(session.model, session.memory)
        own = replace(session, model=model, optimiser=session.training.optimiser(model))
        session.training.fit(own, Proximal(self.strength))
        session.memory.update(model.state_dict())


def ditto(strength: NonNegativeFloat = 0.1) -> Method:
    """FedAvg, beside which each client trains a personal network."""
    return replace(
        fedavg(),
        name="ditto",
        paper="arXiv:2012.04221",
        after=TrainPersonal(strength),
        personal=personal_network,
    )
