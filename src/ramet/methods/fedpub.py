r"""FED-PUB: each client gets a mean weighted by how similarly networks act on a random graph.

Baek et al., *Personalized Subgraph Federated Learning*, ICML 2023.

.. math::
    \alpha_{ij} = \frac{\exp(\tau \cos(h_i, h_j))}{\sum_k \exp(\tau \cos(h_i, h_k))}, \qquad
    \theta_i \leftarrow \sum_j \alpha_{ij} \theta_j, \qquad
    L_i = L + \lambda_1 \lVert \mu_i \rVert_1
          + \lambda_2 \sum_W \lVert W - \bar W \rVert_2

======================  ==============================================================
paper symbol            name here
======================  ==============================================================
:math:`h`               the extra ``embedding``: mean over the nodes of a random graph
:math:`\tau`            ``sharpness``
:math:`\mu`             the private masks, one value for each weight of a layer
:math:`\bar W`          the parameters that the client was sent
:math:`\lambda_1`       ``sparsity``; smaller values of a mask count as 0 in evaluation
:math:`\lambda_2`       ``nearness``; not in round 1
======================  ==============================================================

The random graph has five communities of 100 nodes with Gaussian features, the same at all sites.
The embedding is the output of the last convolution, as in the authors' program, where a linear
layer follows it. In that program the two penalties are computed from detached copies and have no
gradient; here they have. Where gradients are small, as with ``normalised`` features, the penalty of
the masks can then shrink all of them to zero. ``sharpness`` is the program's for Cora. The program
evaluates clients after their training, before the merge; that is ``site_model=trained``.

An embedding tells the coordinator no more than the parameters, which it can evaluate on the random
graph itself, except for the masks. Replies are compared, so they cannot be summed securely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import NonNegativeFloat, PositiveFloat
from torch import Tensor, nn

from ramet.methods.authors import Authors, Deviation
from ramet.models.networks import embedding_size
from ramet.models.plain_node import MaskedNodeGCN
from ramet.models.random_graph import random_graph
from ramet.models.settings import NodeNetwork
from ramet.payload import Payload, nothing, only
from ramet.rules.extras import Extras
from ramet.rules.method import Method
from ramet.rules.personal_means import PersonalMeans, cosines
from ramet.rules.site_model import SiteModel, with_site_model
from ramet.tasks import NodeClassification
from ramet.training.local import Session, Term


@dataclass(frozen=True)
class BySimilarity(PersonalMeans):
    """Means weighted by the similarity of the clients' embeddings."""

    sharpness: float

    def weights(self, replies: Mapping[str, Payload]) -> NDArray[np.float64]:
        similar = cosines(reply.extras["embedding"] for reply in replies.values())
        weights = np.exp(self.sharpness * similar)
        normalised: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
        return normalised


def no_embedding(model: nn.Module, shared: Sequence[str]) -> Mapping[str, Tensor]:  # noqa: ARG001
    return {"embedding": torch.zeros(embedding_size(model)[0])}


@torch.no_grad()
def send_embedding(session: Session) -> None:
    """Send the mean output for the random graph's nodes."""
    assert isinstance(session.model, MaskedNodeGCN)
    session.model.eval()
    graph = random_graph(session.model.features).to(session.device)
    session.sending["embedding"] = session.model(graph).mean(dim=0)


@dataclass(frozen=True)
class SparseAndNear:
    """Sparse masks, and parameters near those that were sent."""

    sparsity: float
    nearness: float

    def __call__(self, session: Session) -> Term:
        shared = session.shared_parameters()
        masks = [p for name, p in session.model.named_parameters() if name not in shared]
        nearness = self.nearness if session.randomness.round > 1 else 0.0

        def term(batch: Any, output: Tensor) -> Tensor:  # noqa: ARG001
            sizes = torch.stack([mask.abs().sum() for mask in masks]).sum()
            moved = [(now - session.start[name]).square().sum() for name, now in shared.items()]
            distances = torch.stack([(square + 1e-12).sqrt() for square in moved]).sum()
            return self.sparsity * sizes + nearness * distances

        return term


def fedpub(
    network: NodeNetwork = NodeNetwork(),  # noqa: B008 (frozen)
    sharpness: PositiveFloat = 3.0,
    sparsity: NonNegativeFloat = 1e-3,
    nearness: NonNegativeFloat = 1e-3,
    site_model: SiteModel = "merged",
) -> Method:
    """A mean for each client by the similarity of networks, with private masks over the weights."""
    method = Method(
        name="fedpub",
        paper="arXiv:2206.10206",
        model=partial(MaskedNodeGCN, settings=network, threshold=sparsity),
        task=NodeClassification(),
        shared=only("*.weight", "*.bias"),
        switchable=nothing,  # whole replies are weighed
        merging=BySimilarity(sharpness),
        penalty=SparseAndNear(sparsity, nearness),
        after=send_embedding,
        extras=Extras(no_embedding),
    )
    return with_site_model(method, site_model)


_UTILS, _CLIENT = "data/generators/utils.py", "models/fedpub/client.py"
AUTHORS = Authors(
    setting="cora",
    deviations=(
        Deviation("partition", "metis", "data/generators/disjoint.py: metis.part_graph"),
        Deviation("train", "0.2", "data/generators/disjoint.py: ratio_train"),
        Deviation("connected", "true", f"{_UTILS}: LargestConnectedComponents"),
        Deviation("normalised", "true", f"{_UTILS}: NormalizeFeatures"),
        Deviation("hidden", "128", "parser.py: --n-dims"),
        Deviation("weight_decay", "0.000001", "main.py: set_config"),
        Deviation("sparsity", "0", f"{_CLIENT}: the penalty of a state_dict has no gradient"),
        Deviation("nearness", "0", f"{_CLIENT}: the penalty of a state_dict has no gradient"),
        Deviation("site_model", "trained", f"{_CLIENT}: validate after training"),
    ),
    not_followed=(
        "The program's network has a linear layer after two convolutions; here the second "
        "convolution has the classes as outputs.",
        "The program sets masks below 0.001 to zero in evaluation.",
        "The program draws training, validation and test nodes whatever their classes.",
        "The script has 100 rounds (--rounds 100) and 10 clients of Cora (--set clients=10); for "
        "other data and numbers the program has no learning rate and sharpness of its own.",
    ),
)
