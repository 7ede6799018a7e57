r"""FedProx: FedAvg whose clients are pulled back to where the round started.

Li et al., *Federated Optimization in Heterogeneous Networks*, MLSys 2020.

.. math:: \min_w\; F_k(w) + \frac{\mu}{2} \lVert w - w^t \rVert^2

=====================  ================================================
paper symbol           name here
=====================  ================================================
:math:`\mu`            ``mu``
:math:`w^t`            the shared parameters as they arrived
:math:`F_k`            the task's loss
=====================  ================================================

Only shared parameters are pulled: private ones have no common value. With ``mu`` 0 it is FedAvg.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from pydantic import NonNegativeFloat
from torch import Tensor

from ramet.methods.base import Method
from ramet.methods.fedavg import fedavg
from ramet.methods.training import LocalTraining, Session, Term
from ramet.models import GraphNetwork


@dataclass(frozen=True)
class Proximal:
    """Half mu times the squared distance that the shared parameters have moved in this round."""

    mu: float

    def __call__(self, session: Session) -> Term:
        named = dict(session.model.named_parameters())
        moving = [named[name] for name in session.shared if name in named]
        start = [parameter.detach().clone() for parameter in moving]

        def term() -> Tensor:
            pairs = zip(moving, start, strict=True)
            squares = [(now - then).square().sum() for now, then in pairs]
            return self.mu / 2 * torch.stack(squares).sum()

        return term


def fedprox(
    mu: NonNegativeFloat = 0.01,
    network: GraphNetwork = GraphNetwork(),  # noqa: B008 (frozen)
    training: LocalTraining = LocalTraining(),  # noqa: B008 (frozen)
) -> Method:
    """Share the GIN layers and stay near what arrived."""
    return replace(
        fedavg(network, training),
        name="fedprox",
        paper="arXiv:1812.06127",
        penalty=Proximal(mu) if mu else None,
    )
