r"""FedSpray: proxies of the neighbourhoods of each class, learned by all sites.

Fu, Chen, Zhang, Chen and Li, *Federated Graph Learning with Structure Proxy Alignment*, KDD 2024.

Nodes of a class that is rare at a site have misleading neighbours there. Beside its private GNN, a
site trains an encoder that reads features and, instead of links, a proxy of the node's class.
Encoder and proxies are averaged, and their predictions are soft targets for the GNN:

.. math::
    L_{GNN} = L_{CE} + \lambda_1 \operatorname{mean}_{v \in R} \operatorname{KL}(q_v \| p_v), \qquad
    L_{enc} = L_{CE}(\hat q) + \operatorname{mean}_{v \in T} \operatorname{KL}(p_v \| q_v), \qquad
    \bar s_c = \frac{\sum_m n_{m,c}\, s_{m,c}}{\sum_m n_{m,c}}

==============================  =============================================================
symbol                          name here
==============================  =============================================================
:math:`p`                       the output of ``gnn``: private
:math:`q, \hat q`               ``from_features``, with proxies and without: shared
:math:`s_{m,c}`                 ``proxies``, sent as an extra; a private parameter in training
:math:`n_{m,c}`                 the extra ``counts``: training nodes of a class
:math:`T, R`                    training nodes; these and nodes that :math:`\hat q` is sure of
:math:`\lambda_1`               ``strength``
==============================  =============================================================

The paper's abstract and the authors' program were read; the symbols are ours. In the program each
training node has a proxy of its own, whose mean over a class is sent, and soft targets use these;
classes are weighted by their share of a site's training nodes; and the classifier without proxies
starts each round as a copy of the one with them. Here a site has one proxy for each class, which
starts as the mean over all sites, classes are weighted by their nodes, and both classifiers are
averaged. The program's GNN is a GraphSAGE, here it is a GCN. As there, a site first trains its GNN,
then its encoder. The program gives proxies an optimiser and a learning rate of their own (0.02),
trains five epochs in a round and starts proxies at 0.1; here they share the network's optimiser and
epochs, and start at zero. Means over sites are weighted by training nodes there, by nodes here.

The encoder's parameters, proxies and counts leave a site, and can be summed securely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import torch
from pydantic import NonNegativeFloat
from pydantic.dataclasses import dataclass
from torch import Tensor, nn
from torch.nn import functional

from ramet.methods.fedproto import PrototypeMean, invalid_counts
from ramet.models.networks import embedding_size
from ramet.models.settings import NodeNetwork
from ramet.models.structure_proxies import ProxyGCN
from ramet.options import Share
from ramet.payload import only
from ramet.rules.extras import Extras
from ramet.rules.method import Method
from ramet.tasks import NodeClassification
from ramet.training.local import LocalTraining, Session, Term, descend


def no_proxies(model: nn.Module, shared: Sequence[str]) -> Mapping[str, Tensor]:  # noqa: ARG001
    classes, width = embedding_size(model)
    return {"proxies": torch.zeros(classes, width), "counts": torch.zeros(classes)}


@dataclass(frozen=True)
class SoftTargets:
    """``strength`` times the divergence of the GNN from the received encoder and proxies."""

    strength: float
    sure: float

    def __call__(self, session: Session) -> Term:
        model = session.model
        assert isinstance(model, ProxyGCN)
        with torch.no_grad():
            model.proxies.copy_(session.received["proxies"])
        teacher = deepcopy(model).eval()

        def term(batch: Any, output: Tensor) -> Tensor:
            with torch.no_grad():
                targets, reliable = soft_targets(teacher, batch, self.sure)
            return self.strength * divergence(targets[reliable], output[reliable])

        return term


def soft_targets(teacher: ProxyGCN, graph: Any, sure: float) -> tuple[Tensor, Tensor]:
    """[nodes, classes] logits with proxies, and which nodes may learn from them."""
    plain, targets = teacher.from_features(graph)
    return targets, graph.trained | (plain.softmax(dim=1).amax(dim=1) > sure)


def divergence(targets: Tensor, output: Tensor) -> Tensor:
    """The mean of KL(targets || output) over nodes, both given as logits; 0 without any."""
    if not len(targets):
        return output.sum() * 0.0
    logs = targets.log_softmax(dim=1), output.log_softmax(dim=1)
    return functional.kl_div(logs[1], logs[0], reduction="batchmean", log_target=True)


def train_encoder(session: Session) -> None:
    """Train the encoder and the proxies to agree with the GNN, and send the proxies."""
    model, training, task = session.model, session.training, session.task
    assert isinstance(model, ProxyGCN)
    assert isinstance(training, LocalTraining)
    counts = torch.zeros_like(session.received["counts"])
    model.eval()  # the GNN teaches without dropout, and the encoder has none
    with session.randomness.torch_draws("encoder"):
        for epoch in range(training.epochs):
            order = session.randomness.generator(f"order of the encoder's epoch {epoch}")
            counts.zero_()
            for batch in task.batches(session.samples, training.batch_size, order):
                batch = batch.to(session.device)
                rows, labels = task.labelled(batch)
                counts += torch.bincount(labels, minlength=len(counts))
                with torch.no_grad():
                    learned = task.output(model, batch)
                plain, together = model.from_features(batch)
                loss = task.loss(plain, batch) + divergence(learned[rows], together[rows])
                descend(session.optimiser, loss)
    session.sending.update(proxies=model.proxies.detach().clone(), counts=counts)


def fedspray(
    network: NodeNetwork = NodeNetwork(),  # noqa: B008 (frozen)
    strength: NonNegativeFloat = 1.0,
    sure: Share = 0.7,
) -> Method:
    """A private GNN that learns from a common encoder of features and proxies of classes."""
    return Method(
        name="fedspray",
        paper="arXiv:2408.09393",
        model=partial(ProxyGCN, settings=network),
        task=NodeClassification(),
        shared=only("features.*", "classify.*", "plain.*"),
        penalty=SoftTargets(strength, sure),
        after=train_encoder,
        extras=Extras(no_proxies, PrototypeMean("proxies"), invalid_counts),
    )
