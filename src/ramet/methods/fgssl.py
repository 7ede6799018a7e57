r"""FGSSL: FedAvg that keeps nodes near the common model's nodes of their class and neighbourhood.

Huang, Wan, Ye and Du, *Federated Graph Semantic and Structural Learning*, IJCAI 2023.

The model as received is a teacher, which sees a weak random view of the graph; the model in
training sees a strong one. A contrast pulls the embedding of a training node towards the teacher's
nodes of its class and away from the others, and the similarity of a node to its neighbours is
distilled:

.. math::
    L_C = \operatorname{mean}_i -\frac{1}{|P_i|} \sum_{p \in P_i}
    \log \frac{e^{\cos(h_i, h^g_p) / \tau}}{\sum_k e^{\cos(h_i, h^g_k) / \tau}}, \qquad
    L_D = \operatorname{mean}_i \operatorname{KL}(S^g_i \,\|\, S_i), \qquad
    S_{ij} = \frac{e^{s_{ij}}}{\sum_{l \in N_i} e^{s_{il}}}

with :math:`L = L_{CE} + \lambda_C L_C + \lambda_D L_D`.

==============================  ==============================================================
paper symbol                    name here
==============================  ==============================================================
:math:`h, h^g`                  ``encode`` of the network in training, and as received
:math:`P_i`                     training nodes of the class of node i
:math:`s_{ij}`                  cosine of the class probabilities of two neighbours
:math:`N_i`                     the node and its neighbours, in the whole graph
:math:`\tau`                    ``temperature``
:math:`\lambda_C, \lambda_D`    ``semantic``, ``structural``
==============================  ==============================================================

The shares of links and features that the views drop are the authors' program's. That program, as
published, weighs the contrast, then replaces the teacher in it by the client's own network, and
computes the distillation, for the ten nodes with the most neighbours, without adding it to the
loss. Here both terms are as in the paper, over all nodes.

The program contrasts the output of the last hidden convolution before the activation, here after
it. In its distillation, logits are divided by 0.1 before the softmax, and
the term is multiplied by 50; here neither. It drops the directions of a link independently, here
whole links are dropped. Embeddings and outputs of the network in training come from one pass there,
here from two, each with its own dropout.

Only parameters leave a site, and they can be summed securely.
"""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import Any

import torch
from pydantic import NonNegativeFloat, PositiveFloat
from pydantic.dataclasses import dataclass
from torch import Tensor
from torch.nn import functional

from ramet.models.plain_node import NodeGCN
from ramet.models.random_views import random_view
from ramet.models.settings import NodeNetwork
from ramet.options import Share
from ramet.payload import everything
from ramet.rules.method import Method
from ramet.tasks import NodeClassification
from ramet.training.local import Session, Term


@dataclass(frozen=True)
class Views:
    """The shares of links and features that the two views drop."""

    weak_links: Share = 0.3
    weak_features: Share = 0.3
    strong_links: Share = 0.8
    strong_features: Share = 0.5


@dataclass(frozen=True)
class SemanticAndStructural:
    """The contrast with the teacher's nodes, and the distillation of neighbourhoods."""

    semantic: float
    structural: float
    temperature: float
    views: Views

    def __call__(self, session: Session) -> Term:
        task, views, teacher = session.task, self.views, deepcopy(session.model).eval()

        def term(batch: Any, output: Tensor) -> Tensor:  # noqa: ARG001
            weak = random_view(batch, views.weak_links, views.weak_features)
            strong = random_view(batch, views.strong_links, views.strong_features)
            rows, labels = task.labelled(batch)
            own = task.encode(session.model, strong)[rows]
            now = task.output(session.model, strong)
            with torch.no_grad():
                common, then = task.encode(teacher, weak)[rows], task.output(teacher, weak)
            near = contrast(own, common, labels, self.temperature)
            alike = distilled(now, then, batch.edge_index)
            return self.semantic * near + self.structural * alike

        return term


def contrast(own: Tensor, common: Tensor, labels: Tensor, temperature: float) -> Tensor:
    """How far embeddings are from the common ones of their class; 0 without any."""
    if not len(labels):
        return own.sum() * 0.0
    cosines = functional.normalize(own) @ functional.normalize(common).T
    same = (labels[:, None] == labels[None]).to(own)
    shares = (cosines / temperature).log_softmax(dim=1)
    return -((shares * same).sum(dim=1) / same.sum(dim=1)).mean()


def distilled(now: Tensor, then: Tensor, links: Tensor) -> Tensor:
    """The divergence of the similarities between neighbours from those of the teacher."""
    own, teacher = similarities(now, links), similarities(then, links)
    return (teacher.exp() * (teacher - own)).sum() / len(now)


def similarities(output: Tensor, links: Tensor) -> Tensor:
    """[links + nodes] logarithm of each neighbour's share in the similarities of a node."""
    itself = torch.arange(len(output), device=output.device)
    sources, targets = torch.cat([links, itself.expand(2, -1)], dim=1)
    chances = functional.normalize(output.softmax(dim=1))
    cosines = (chances[sources] * chances[targets]).sum(dim=1)
    totals = output.new_zeros(len(output)).index_add(0, targets, cosines.exp())
    return cosines - totals.log()[targets]


def fgssl(
    network: NodeNetwork = NodeNetwork(),  # noqa: B008 (frozen)
    views: Views = Views(),  # noqa: B008
    semantic: NonNegativeFloat = 1.0,
    structural: NonNegativeFloat = 1.0,
    temperature: PositiveFloat = 0.1,
) -> Method:
    """FedAvg with the received model as a teacher of classes and neighbourhoods."""
    return Method(
        name="fgssl",
        paper="arXiv:2406.18937",
        model=partial(NodeGCN, settings=network),
        task=NodeClassification(),
        shared=everything,
        penalty=SemanticAndStructural(semantic, structural, temperature, views),
    )
