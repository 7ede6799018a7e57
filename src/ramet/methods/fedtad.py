r"""FedTAD: the server distils the clients' models, each in the classes that it knows well.

Zhu, Li, Wu, Wu, Hu and Li, *FedTAD: Topology-aware Data-free Knowledge Distillation for Subgraph
Federated Learning*, IJCAI 2024.

A client's model is reliable in a class whose training nodes are similar to their neighbours, in
features and in topology:

.. math::
    \Phi_k^c = \sum_{v \in V_k^c} \frac{1}{|N_v| + 1} \Bigl(1 + \sum_{u \in N_v}
    \cos(x_v \Vert p_v, x_u \Vert p_u)\Bigr), \qquad
    \hat\Phi_k^c = \Phi_k^c / \textstyle\sum_l \Phi_l^c

After averaging parameters, the server trains a generator of graphs that clients classify well and
on which the common model disagrees with them, and then makes the common model agree:

.. math::
    L_{dis} = \sum_{k, c} \hat\Phi_k^c \operatorname{mean}_{v: y_v = c} |f(v) - f_k(v)|, \qquad
    L_{gen} = \lambda_1 L_{sem} - L_{dis} + \lambda_2 L_{div}

================================  ============================================================
paper symbol                      name here
================================  ============================================================
:math:`\Phi_k`                    the extra ``reliability``, one value for each class
:math:`p_v`                       ``return_probabilities`` of random walks of 1 to ``walk`` steps
:math:`f, f_k`                    the common model, and a client's
:math:`L_{sem}`                   cross-entropy of the clients' models, weighted as in L_dis
:math:`L_{div}`                   ``diversity_loss``: small if different noise gives other nodes
:math:`\lambda_1, \lambda_2`      ``semantic``, ``diversity``
================================  ============================================================

The generator draws ``generated`` nodes, linked to the ``neighbours`` most similar ones. The
authors' program describes topology by the numbers of the nodes that random walks visit, which
depend on how nodes are numbered; here it is how likely a walk is back at its start. The program
keeps dropout on, and the state of Adam between rounds, and counts the diversity once per client;
here none of this is so. It has three local epochs, a weight decay of 5e-4 on the server, and counts
a node among its own neighbours; here it is one, none, and only others. Otherwise the losses and
defaults are the program's.

Parameters and ``reliability`` leave a site. It says how many training nodes of each class there
are, weighted by their similarity to neighbours. Replies are compared, so they cannot be summed
securely.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np
import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor, nn
from torch.nn import functional

from ramet.models.generated_graph import FeatureGenerator, nearest_graph
from ramet.models.networks import embedding_size
from ramet.models.plain_node import NodeGCN
from ramet.models.random_walk import return_probabilities
from ramet.models.settings import NodeNetwork
from ramet.payload import Arrays, Payload, everything, nothing, under
from ramet.rules.extras import Extras
from ramet.rules.merging import Comparing, weighted_mean
from ramet.rules.method import Method
from ramet.rules.server import Server
from ramet.tasks import NodeClassification, NodeSamples
from ramet.training.local import LocalTraining, Session, descend

_NOW, _GENERATOR = "now/", "generator/"


@dataclass(frozen=True)
class DistilledMean(Comparing):
    """The weighted mean, which then learns from the clients' models on generated graphs."""

    server_epochs: NonNegativeInt = 5
    server_steps: PositiveInt = 5
    server_lr: PositiveFloat = 1e-3
    generator_lr: PositiveFloat = 1e-3
    generated: PositiveInt = 100
    neighbours: PositiveInt = 5
    semantic: NonNegativeFloat = 1.0
    diversity: NonNegativeFloat = 1.0

    def start(self, shared: Arrays) -> Payload:
        return Payload({_NOW + name: array for name, array in shared.items()})

    def send(self, state: Payload, client: str) -> Arrays:  # noqa: ARG002
        return under(_NOW, state.arrays)

    def compared(self, state: Payload, replies: Mapping[str, Payload], server: Server) -> Payload:
        mean = weighted_mean(self.send(state, ""), replies.items())
        common, generator = _loaded(server.network(), mean), _generator(state, server)
        clients = [_loaded(server.network(), one.arrays).eval() for one in replies.values()]
        shares = reliabilities(replies).to(server.device)
        with server.randomness.torch_draws("noise"):
            self._distil(common.eval(), generator, clients, shares, server.device)
        return Payload({**_arrays(_NOW, common), **_arrays(_GENERATOR, generator)})

    def _distil(
        self,
        common: nn.Module,
        generator: FeatureGenerator,
        clients: Sequence[nn.Module],
        shares: Tensor,
        device: torch.device,
    ) -> None:
        labels = torch.arange(self.generated, device=device) % shares.size(1)
        weights = node_weights(shares, labels)
        learns = LocalTraining(self.server_lr, 0.0).optimiser(common)
        draws = LocalTraining(self.generator_lr, 0.0).optimiser(generator)
        for _ in range(self.server_epochs):
            noise = torch.randn(self.generated, generator.noise).to(device)
            features = generator(noise, labels)
            graph = nearest_graph(features, labels, self.neighbours)
            outputs = torch.stack([model(graph) for model in clients])
            loss = self.semantic * semantic_loss(outputs, labels, weights)
            loss = loss - disagreement(common(graph), outputs.detach(), weights)
            descend(draws, loss + self.diversity * diversity_loss(noise, features))
            with torch.no_grad():
                graph = nearest_graph(generator(noise, labels), labels, self.neighbours)
                outputs = torch.stack([model(graph) for model in clients])
            for _ in range(self.server_steps):
                descend(learns, disagreement(common(graph), outputs, weights))


def reliabilities(replies: Mapping[str, Payload]) -> Tensor:  # [clients, classes]
    """Each client's share of the reliability in a class; 0 in a class that nobody has."""
    sent = torch.from_numpy(np.stack([one.extras["reliability"] for one in replies.values()]))
    return sent / sent.sum(dim=0).clamp(min=1e-12)


def node_weights(shares: Tensor, labels: Tensor) -> Tensor:  # [clients, nodes]
    """The weights of nodes, such that those of a class add up to the client's share in it."""
    counts = torch.bincount(labels, minlength=shares.size(1))
    return shares[:, labels] / counts[labels]


def semantic_loss(outputs: Tensor, labels: Tensor, weights: Tensor) -> Tensor:
    """How badly the clients' models, [clients, nodes, classes], recognise the classes."""
    return -(outputs.log_softmax(dim=2)[:, torch.arange(len(labels)), labels] * weights).sum()


def disagreement(output: Tensor, outputs: Tensor, weights: Tensor) -> Tensor:
    """The weighted distance of the common model's output from those of the clients' models."""
    return ((output - outputs).abs().mean(dim=2) * weights).sum()


def diversity_loss(noise: Tensor, features: Tensor) -> Tensor:
    """1 if all nodes are the same, less if nodes differ where their noise does."""
    distant = torch.cdist(noise, noise).square() / noise.size(1)
    apart = torch.cdist(features, features, p=1.0) / features.size(1)
    return (-distant * apart).mean().exp()


def _loaded(network: nn.Module, arrays: Arrays) -> nn.Module:
    network.load_state_dict({name: torch.tensor(array) for name, array in arrays.items()})
    return network


def _generator(state: Payload, server: Server) -> FeatureGenerator:
    """The generator of the last round; in the first one a new one."""
    with server.randomness.torch_draws("generator"):
        generator = FeatureGenerator(server.shape)
    last = under(_GENERATOR, state.arrays)
    if last:
        _loaded(generator, last)
    return generator.to(server.device)


def _arrays(prefix: str, network: nn.Module) -> Arrays:
    return {prefix + name: value.cpu().numpy() for name, value in network.state_dict().items()}


def no_reliability(model: nn.Module, shared: Sequence[str]) -> Mapping[str, Tensor]:  # noqa: ARG001
    return {"reliability": torch.zeros(embedding_size(model)[0])}


@dataclass(frozen=True)
class SendReliability:
    """Send how similar training nodes are to their neighbours, summed over each class."""

    walk: int

    @torch.no_grad()
    def __call__(self, session: Session) -> None:
        if "reliability" not in session.memory:  # it depends on the data only
            samples = session.samples
            assert isinstance(samples, NodeSamples)
            graph = samples.training_graph.to(session.device)
            described = torch.cat([graph.features, return_probabilities(graph, self.walk)], dim=1)
            unit = functional.normalize(described)
            near = 1 + (unit * (graph.whole.adjacency @ unit)).sum(dim=1)
            rows, labels = session.task.labelled(graph)
            known = (near / (graph.degrees + 1))[rows].clamp(min=0)
            start = torch.zeros_like(session.received["reliability"])
            session.memory["reliability"] = start.index_add(0, labels, known)
        session.sending["reliability"] = session.memory["reliability"]


def negative_reliability(extras: Arrays) -> str | None:
    """Check the reliability, which is a weight."""
    return None if (extras["reliability"] >= 0).all() else "reliability is not a weight"


def fedtad(
    network: NodeNetwork = NodeNetwork(),  # noqa: B008 (frozen)
    distillation: DistilledMean = DistilledMean(),  # noqa: B008
    walk: PositiveInt = 5,
) -> Method:
    """FedAvg whose server distils the clients' models in the classes that they know well."""
    return Method(
        name="fedtad",
        paper="arXiv:2404.14061",
        model=partial(NodeGCN, settings=network),
        task=NodeClassification(),
        shared=everything,
        switchable=nothing,  # whole models are distilled
        merging=distillation,
        after=SendReliability(walk),
        extras=Extras(no_reliability, fault=negative_reliability),
    )
