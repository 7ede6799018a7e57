r"""FedProx: FedAvg with a penalty for moving away from the received parameters.

Li et al., *Federated Optimization in Heterogeneous Networks*, MLSys 2020.

.. math:: \min_w\; F_k(w) + \frac{\mu}{2} \lVert w - w^t \rVert^2

=====================  ================================================
paper symbol           name here
=====================  ================================================
:math:`\mu`            ``mu``
:math:`w^t`            the shared parameters as received
:math:`F_k`            the task's loss
=====================  ================================================

The penalty covers shared parameters only, because private ones have no common value. With ``mu`` 0
this is FedAvg.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import torch
from pydantic import NonNegativeFloat
from torch import Tensor

from ramet.methods.fedavg import fedavg
from ramet.rules.method import Method
from ramet.rules.site_model import SiteModel
from ramet.training.local import Session, Term


@dataclass(frozen=True)
class Proximal:
    """mu / 2 times the squared distance of the shared parameters from the start of the round."""

    mu: float

    def __call__(self, session: Session) -> Term:
        shared = session.shared_parameters()

        def term(batch: Any, output: Tensor) -> Tensor:  # noqa: ARG001
            squares = [(now - session.start[name]).square().sum() for name, now in shared.items()]
            return self.mu / 2 * torch.stack(squares).sum()

        return term


def fedprox(mu: NonNegativeFloat = 0.01, site_model: SiteModel = "merged") -> Method:
    """FedAvg that stays near the received parameters."""
    return replace(
        fedavg(site_model),
        name="fedprox",
        paper="arXiv:1812.06127",
        penalty=Proximal(mu) if mu else None,
    )
