r"""O-pFGL: one exchange of statistics of classes, and then personal training.

Yan et al., *Personalized One-shot Federated Graph Learning for Heterogeneous Clients*,
arXiv:2411.11304.

Before round 1, sites send how many training nodes of each class they have, and the sums and squares
of :math:`f_v`, the features of a node and their mean over its neighbourhood. From these the server
makes a small graph with the same statistics:

.. math::
    f = [X, \tilde A X], \qquad
    \min_{X', A'}\ \alpha \sum_c \frac{n_c}{n}
    \left( \operatorname{mse}(\mu_c, \mu'_c) + \operatorname{mse}(\sigma_c, \sigma'_c) \right)
    + \beta \frac{\sum_{ij} A'_{ij} \operatorname{mean} e^{-(x'_i - x'_j)^2 / 2}}{\sum_{ij} A'_{ij}}

A site trains its network on this graph, and then on its own one. There the network before counts as
a teacher, more so for nodes of classes that are rare at the site or have few neighbours of their
class:

.. math::
    L = L_{CE} + \frac{1}{|V|} \sum_v \gamma_v \operatorname{KL}(p'_v \| p_v), \qquad
    \gamma_v = \min\left(a \sum_c \frac{\hat y_{vc}}{1 + \ln(1 + H_c)},\ b\right)

======================================  ========================================================
symbol                                  name here
======================================  ========================================================
:math:`n_c, \mu_c, \sigma_c`            from the extras ``counts``, ``sums`` and ``squares``
:math:`X', A'`                          the extras ``nodes`` and ``links`` that sites are sent
:math:`\alpha, \beta`                   ``alignment``, ``smoothness``
:math:`p', p`                           the network after the first stage, and in training
:math:`H_c`                             homophily among training nodes, summed over the class
:math:`\hat y`                          labels after ``label_steps`` of propagation
:math:`a, b`                            ``strength``, ``largest``
======================================  ========================================================

The abstract and the authors' program were read; the symbols are ours. The program also labels some
nodes by propagation before it counts, computes :math:`A'` with a network, and ends both stages by
validation scores. Here these nodes are left out, :math:`A'` is trained itself, and the stages have
``surrogate_epochs`` and ``epochs`` steps. The standard deviation is that of all nodes together. On
Cora the program trains without dropout and weight decay, at learning rates of 1e-4 and 5e-5, and
outside of citation networks the surrogate graph has a share of each class's nodes instead of one.

The method is meant for one round, ``--rounds 1``; in later rounds sites just keep training.
Counts, sums and squares of each class leave a site, and no parameters. Of a few nodes, they tell
the features, so classes with fewer than ``smallest`` training nodes are left out. They are needed
as sums only, but secure sums do not cover what is exchanged before training.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import partial
from typing import Any

import numpy as np
import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor, nn
from torch.nn import functional

from ramet.models.layers import GCNLayer
from ramet.models.networks import embedding_size
from ramet.models.plain_node import NodeGCN
from ramet.models.settings import NodeNetwork
from ramet.options import Share
from ramet.payload import Arrays, Payload, nothing, only
from ramet.rules.extras import Extras, Stage, are_counts
from ramet.rules.merging import Summing
from ramet.rules.method import Method
from ramet.rules.server import Server
from ramet.tasks import NodeClassification, NodeSamples
from ramet.training.local import LocalTraining, Session, Term, descend

_SENT, _TEACHER = ("counts", "sums", "squares"), "teacher/"
_WEAKEST_LINK = 0.01
_CYCLE, _OF_LINKS = 50, 10  # steps of the server, and how many of them change links


@dataclass(frozen=True)
class NoStatistics:
    """Start values: statistics of no nodes, and a graph without known classes."""

    per_class: int

    def __call__(self, model: nn.Module, shared: Sequence[str]) -> Mapping[str, Tensor]:  # noqa: ARG002
        assert isinstance(model, NodeGCN)
        classes, width = embedding_size(model)[0], _layers(model)[0].weight.size(1)
        nodes = classes * self.per_class
        return {
            "counts": torch.zeros(classes),
            "sums": torch.zeros(classes, 2 * width),
            "squares": torch.zeros(classes, 2 * width),
            "nodes": torch.zeros(nodes, width),
            "links": torch.zeros(nodes, nodes),
            "known": torch.zeros(classes),
        }


@dataclass(frozen=True)
class SendStatistics:
    """Send sums over the training nodes of each class that has enough of them."""

    smallest: int

    @torch.no_grad()
    def __call__(self, session: Session) -> None:
        samples = session.samples
        assert isinstance(samples, NodeSamples)
        graph = samples.training_graph.to(session.device)
        rows, labels = session.task.labelled(graph)
        scaled = graph.features * graph.gcn_scale
        near = graph.gcn_scale * (graph.whole.adjacency @ scaled + scaled)
        described = torch.cat([graph.features, near], dim=1)[rows]
        counts = torch.bincount(labels, minlength=graph.classes)
        enough = (counts >= self.smallest).to(described)
        known = enough[labels].unsqueeze(1)
        none = torch.zeros_like(session.received["sums"])
        session.sending["counts"] = counts * enough
        session.sending["sums"] = none.index_add(0, labels, known * described)
        session.sending["squares"] = none.index_add(0, labels, known * described.square())


def invalid_statistics(extras: Arrays) -> str | None:
    """Check the statistics of which the server computes means and deviations."""
    valid = are_counts(extras["counts"]) and (extras["squares"] >= 0).all()
    return None if valid else "counts or squares are invalid"


@dataclass(frozen=True)
class SurrogateGraph(Summing):
    """A graph that has the statistics of all sites together."""

    per_class: PositiveInt = 1
    server_steps: NonNegativeInt = 3000
    nodes_lr: PositiveFloat = 5e-3
    links_lr: PositiveFloat = 5e-3
    alignment: NonNegativeFloat = 10.0
    smoothness: NonNegativeFloat = 0.1

    def term(self, reply: Payload) -> Arrays:
        return {name: reply.extras[name].astype(np.float64) for name in _SENT}

    def step(self, state: Payload, total: Arrays, server: Server) -> Payload:
        statistics = [torch.from_numpy(array).float() for array in moments(total)]
        shape = state.arrays["nodes"].shape
        with server.randomness.torch_draws("surrogate"):
            nodes = nn.Parameter(torch.randn(shape))
        scores = nn.Parameter(torch.zeros(shape[0], shape[0]))
        of_nodes = LocalTraining(self.nodes_lr, 0.0).optimiser(nn.ParameterList([nodes]))
        of_links = LocalTraining(self.links_lr, 0.0).optimiser(nn.ParameterList([scores]))
        for number in range(self.server_steps):
            loss = self._loss(nodes, link_weights(scores), statistics)
            nodes.grad = scores.grad = None
            loss.backward()  # type: ignore[no-untyped-call]
            (of_links if number % _CYCLE < _OF_LINKS else of_nodes).step()
        found = {"nodes": nodes.detach(), "links": link_weights(scores).detach()}
        found["known"] = (statistics[0] > 0).float()
        return Payload({**state.arrays, **{name: value.numpy() for name, value in found.items()}})

    def _loss(self, nodes: Tensor, links: Tensor, statistics: Sequence[Tensor]) -> Tensor:
        counts, means, deviations = statistics
        described = torch.cat([nodes, operator(links) @ nodes], dim=1)
        of_class = described.reshape(
            -1, self.per_class, described.size(1)
        )  # [classes, nodes, 2 · features]
        errors = (of_class.mean(dim=1) - means).square().mean(dim=1)
        if self.per_class > 1:
            errors = errors + (of_class.std(dim=1) - deviations).square().mean(dim=1)
        aligned = errors @ counts / counts.sum().clamp(min=1)
        alike = (-(nodes.unsqueeze(1) - nodes).square() / 2).exp().mean(dim=2)
        smooth = (links * alike).sum() / links.sum().clamp(min=1e-12)
        loss: Tensor = self.alignment * aligned + self.smoothness * smooth
        return loss


def moments(total: Arrays) -> tuple[np.ndarray[Any, Any], ...]:
    """Counts, means and standard deviations of classes, of sums over nodes."""
    counts = total["counts"][:, None]
    means = total["sums"] / np.maximum(counts, 1)
    squares = np.maximum(total["squares"] - counts * means**2, 0)
    return total["counts"], means, np.sqrt(squares / np.maximum(counts - 1, 1))


def link_weights(scores: Tensor) -> Tensor:
    """[nodes, nodes] symmetric weights between 0 and 1, without self loops and the weakest."""
    weights = ((scores + scores.T) / 2).sigmoid() * (1 - torch.eye(len(scores)))
    return weights * (weights >= _WEAKEST_LINK)


def operator(links: Tensor) -> Tensor:
    """GCN's symmetric norm of weighted links, with self loops."""
    looped = links + torch.eye(len(links), device=links.device)
    scale = looped.sum(dim=1).rsqrt()
    return scale.unsqueeze(1) * looped * scale


def _layers(model: NodeGCN) -> list[GCNLayer]:
    return [layer for layer in model.layers if isinstance(layer, GCNLayer)]


def dense_output(model: NodeGCN, nodes: Tensor, links: Tensor) -> Tensor:  # [nodes, classes]
    """The network's output for a graph with weighted links."""
    spread, rows = operator(links), nodes
    *hidden, last = _layers(model)
    for layer in hidden:
        rows = spread @ functional.linear(rows, layer.weight) + layer.bias
        rows = model.dropout(model.activation(rows))
    return spread @ functional.linear(rows, last.weight) + last.bias


@dataclass(frozen=True)
class AdaptiveDistillation:
    """Learn from the server's graph once, and keep near what was learned, node by node."""

    surrogate_epochs: NonNegativeInt = 100
    surrogate_lr: PositiveFloat = 0.01
    strength: NonNegativeFloat = 0.2
    largest: NonNegativeFloat = 0.15
    label_steps: NonNegativeInt = 2
    label_share: Share = 0.9

    def __call__(self, session: Session) -> Term:
        model, memory = session.model, session.memory
        assert isinstance(model, NodeGCN)
        if bool(session.received["known"].any()) and not memory:
            self._learn(model, session)
            memory.update({_TEACHER + n: v.clone() for n, v in model.state_dict().items()})
        teacher = deepcopy(model).eval()
        if memory:
            teacher.load_state_dict({n.removeprefix(_TEACHER): v for n, v in memory.items()})

        def term(batch: Any, output: Tensor) -> Tensor:
            if not memory:  # the server knows no class
                return output.new_zeros(())
            with torch.no_grad():
                targets = session.task.output(teacher, batch).log_softmax(dim=1)
                weights = self.weights(batch, *session.task.labelled(batch))
            own = output.log_softmax(dim=1)
            return (weights @ (targets.exp() * (targets - own)).sum(dim=1)) / max(len(own), 1)

        return term

    def _learn(self, model: NodeGCN, session: Session) -> None:
        received = session.received
        labels = torch.arange(len(received["known"]), device=session.device)
        labels = labels.repeat_interleave(len(received["nodes"]) // len(labels))
        known = received["known"][labels] > 0
        optimiser = LocalTraining(self.surrogate_lr, 0.0).optimiser(model)
        with session.randomness.torch_draws("surrogate"):
            for _ in range(self.surrogate_epochs):
                output = dense_output(model, received["nodes"], received["links"])
                descend(optimiser, functional.cross_entropy(output[known], labels[known]))

    def weights(self, graph: Any, rows: Tensor, labels: Tensor) -> Tensor:  # [nodes]
        """How much each node keeps to the teacher."""
        given = torch.zeros(graph.nodes, graph.classes, device=labels.device)
        given[rows, labels] = 1.0
        near = (graph.whole.adjacency @ given)[rows]  # training neighbours by class
        alike = near.gather(1, labels.unsqueeze(1)).squeeze(1) / near.sum(dim=1).clamp(min=1)
        of_class = torch.zeros(graph.classes, device=labels.device).index_add(0, labels, alike)
        spread = self._propagated(graph, given)
        return (self.strength * spread @ (1 / (1 + of_class.log1p()))).clamp(max=self.largest)

    def _propagated(self, graph: Any, given: Tensor) -> Tensor:  # [nodes, classes]
        """Labels after some steps over the normalised links; equal shares where none arrives."""
        scale = graph.degrees.clamp(min=1).to(given).rsqrt().unsqueeze(1)
        now = given
        for _ in range(self.label_steps):
            moved = scale * (graph.whole.adjacency @ (scale * now))
            now = (self.label_share * moved + (1 - self.label_share) * given).clamp(max=1)
        reached = now.sum(dim=1, keepdim=True) > 0
        return torch.where(reached, now, torch.full_like(now, 1 / graph.classes))


def o_pfgl(
    network: NodeNetwork = NodeNetwork(),  # noqa: B008 (frozen)
    training: LocalTraining = LocalTraining(lr=0.01, epochs=50),  # noqa: B008
    surrogate: SurrogateGraph = SurrogateGraph(),  # noqa: B008
    distillation: AdaptiveDistillation = AdaptiveDistillation(),  # noqa: B008
    smallest: PositiveInt = 2,
) -> Method:
    """One exchange of statistics of classes, then personal training; for one round."""
    up, down = only(*_SENT), only("nodes", "links", "known")
    start = NoStatistics(surrogate.per_class)
    extras = Extras(start, surrogate, invalid_statistics, up=up, down=down)
    return Method(
        name="o-pfgl",
        paper="arXiv:2411.11304",
        model=partial(NodeGCN, settings=network),
        task=NodeClassification(),
        training=training,
        shared=nothing,
        penalty=distillation,
        stages=(Stage("statistics", extras, SendStatistics(smallest), last=1),),
    )
