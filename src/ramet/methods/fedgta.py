r"""FedGTA: each client gets a mean over the clients whose propagated labels look alike.

Li et al., *FedGTA: Topology-aware Averaging for Federated Graph Learning*, VLDB 2024.

A client propagates the labels of its training nodes and the predictions for all others, K times:

.. math:: \hat Y^{k} = \tfrac12 \tilde A \hat Y^{k-1} + \tfrac12 \hat Y^0

and sends, besides its parameters, the moments of the result and how confident it is. The server
averages the replies of clients whose moments point in the same direction, weighted by confidence:

.. math:: S_i = \{j : \cos(M_i, M_j) > \epsilon\}, \qquad
          W_i = \sum_{j \in S_i} \frac{H_j}{\sum_{l \in S_i} H_l} W_j

======================  ==============================================================
paper symbol            name here
======================  ==============================================================
:math:`\hat Y`          ``propagated``
:math:`M`               the extra ``moments``: 1 to ``moments``, raw and central
:math:`H`               the extra ``confidence``
:math:`K`               ``steps``
:math:`\epsilon`        ``alike``
======================  ==============================================================

As in the authors' program, the labels of training nodes are added again in each step, the result
passes through a softmax (for H with temperature 20), and training nodes keep their labels in it.
:math:`H = \sum_v d_v (C / e + \sum_c y_{vc} \log y_{vc})` with the degrees d and C classes.
Defaults are the program's for Cora, except for the local epochs (3 there, 1 here) and the network,
a GCN in place of a GAMLP with three hops.

The moments tell the coordinator about the classes at a site: the first is the mean of the
propagated labels. Replies are compared, so they cannot be summed securely.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import PositiveInt
from torch import Tensor, nn
from torch.nn import functional

from ramet.models.networks import embedding_size
from ramet.models.plain_node import NodeGCN
from ramet.models.propagation import propagated
from ramet.models.settings import NodeNetwork
from ramet.options import ProperShare
from ramet.payload import Arrays, Payload, everything, nothing
from ramet.rules.extras import Extras
from ramet.rules.method import Method
from ramet.rules.personal_means import PersonalMeans, cosines
from ramet.tasks import NodeClassification, NodeSamples
from ramet.training.local import Session

_TEMPERATURE = 20.0


@dataclass(frozen=True)
class Alike(PersonalMeans):
    """Means over clients with similar moments, weighted by confidence."""

    threshold: float

    def weights(self, replies: Mapping[str, Payload]) -> NDArray[np.float64]:
        extras = [reply.extras for reply in replies.values()]
        chosen = cosines(one["moments"] for one in extras) > self.threshold
        np.fill_diagonal(chosen, val=True)
        confidence = np.array([one["confidence"].item() for one in extras], np.float64)
        weights = np.where(chosen, np.maximum(confidence, 1e-12), 0.0)
        normalised: NDArray[np.float64] = weights / weights.sum(axis=1, keepdims=True)
        return normalised


@dataclass(frozen=True)
class NoMoments:
    """Start values: moments of zeros, without confidence."""

    count: int

    def __call__(self, model: nn.Module, shared: Sequence[str]) -> Mapping[str, Tensor]:  # noqa: ARG002
        classes, _ = embedding_size(model)
        return {"moments": torch.zeros(2 * self.count, classes), "confidence": torch.zeros(1)}


@dataclass(frozen=True)
class SendMoments:
    """Propagate labels and predictions, and send their moments and the confidence."""

    count: int
    steps: int

    @torch.no_grad()
    def __call__(self, session: Session) -> None:
        samples = session.samples
        assert isinstance(samples, NodeSamples)
        graph = samples.training_graph.to(session.device)
        session.model.eval()
        labels = session.task.output(session.model, graph).softmax(dim=1)
        trained, classes = session.task.labelled(graph)
        labels[trained] = functional.one_hot(classes, labels.size(1)).to(labels.dtype)
        spread = propagated(graph, labels, trained, self.steps)
        sharp, flat = (
            (spread / temperature).softmax(dim=1).index_copy(0, trained, labels[trained])
            for temperature in (1.0, _TEMPERATURE)
        )
        session.sending["moments"] = moments(sharp, self.count)
        session.sending["confidence"] = confidence(flat, graph.degrees).reshape(1)


def moments(values: Tensor, count: int) -> Tensor:
    """[2 · count, classes] raw and central moments over the nodes."""
    centred = values - values.mean(dim=0)
    return torch.stack([(x**p).mean(dim=0) for x in (values, centred) for p in range(1, count + 1)])


def confidence(labels: Tensor, degrees: Tensor) -> Tensor:
    """How far the labels of nodes are from undecided, weighted by degree."""
    certain = labels.size(1) / math.e + torch.xlogy(labels, labels).sum(dim=1)
    return (degrees * certain).sum()


def negative_confidence(extras: Arrays) -> str | None:
    """Check the confidence, which is a reply's weight."""
    return None if extras["confidence"].item() >= 0 else "confidence is not a weight"


def fedgta(
    network: NodeNetwork = NodeNetwork(),  # noqa: B008 (frozen)
    moments: PositiveInt = 6,
    steps: PositiveInt = 5,
    alike: ProperShare = 0.5,
) -> Method:
    """A mean for each client over those with similar propagated labels."""
    return Method(
        name="fedgta",
        paper="arXiv:2401.11755",
        model=partial(NodeGCN, settings=network),
        task=NodeClassification(),
        shared=everything,
        switchable=nothing,  # whole replies are weighed
        merging=Alike(alike),
        after=SendMoments(moments, steps),
        extras=Extras(NoMoments(moments), fault=negative_confidence),
    )
