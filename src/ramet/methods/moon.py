r"""MOON: keep embeddings near those of the common model and away from the client's last ones.

Li, He and Song, *Model-Contrastive Federated Learning*, CVPR 2021.

.. math::
    \ell = \ell_{sup} - \mu \log \frac{\exp(\cos(z, z_{glob}) / \tau)}
    {\exp(\cos(z, z_{glob}) / \tau) + \exp(\cos(z, z_{prev}) / \tau)}

=======================  ==================================================================
paper symbol             name here
=======================  ==================================================================
:math:`z`                ``encode`` of the network in training
:math:`z_{glob}`         ``encode`` of the network as received
:math:`z_{prev}`         ``encode`` of the network after the client's last round (memory)
:math:`\mu, \tau`        ``strength``, ``temperature``
=======================  ==================================================================

The paper adds a projection head to the network; here the embedding is what the network's last layer
reads. Before a client's first round there is no last network, and no contrast.
"""

from __future__ import annotations

from copy import deepcopy
from dataclasses import dataclass, replace
from typing import Any

import torch
from pydantic import NonNegativeFloat, PositiveFloat
from torch import Tensor, nn
from torch.nn import functional

from ramet.methods.fedavg import fedavg
from ramet.rules.method import Method
from ramet.rules.site_model import SiteModel, with_site_model
from ramet.training.local import Session, Term


@dataclass(frozen=True)
class Contrast:
    """The contrastive term."""

    strength: float
    temperature: float

    def __call__(self, session: Session) -> Term:
        common, last = _frozen(session.model), _frozen(session.model)
        now = session.model.state_dict()
        last.load_state_dict({name: session.memory.get(name, now[name]) for name in now})

        def term(batch: Any, output: Tensor) -> Tensor:
            if not session.memory:
                return output.sum() * 0.0
            own = session.task.encode(session.model, batch)
            with torch.no_grad():
                others = [session.task.encode(model, batch) for model in (common, last)]
            cosines = [functional.cosine_similarity(own, other) for other in others]
            logits = torch.stack(cosines, dim=1) / self.temperature
            near = torch.zeros(len(logits), dtype=torch.long, device=logits.device)
            return self.strength * functional.cross_entropy(logits, near)

        return term


def _frozen(model: nn.Module) -> nn.Module:
    return deepcopy(model).eval()


def remember(session: Session) -> None:
    """Keep the network for the next round."""
    session.memory.update(session.model.state_dict())


def moon(
    strength: NonNegativeFloat = 1.0,
    temperature: PositiveFloat = 0.5,
    site_model: SiteModel = "merged",
) -> Method:
    """FedAvg with a contrast between the common embeddings and the client's last ones."""
    method = replace(
        fedavg(),
        name="moon",
        paper="arXiv:2103.16257",
        penalty=Contrast(strength, temperature),
        after=remember,
    )
    return with_site_model(method, site_model)
