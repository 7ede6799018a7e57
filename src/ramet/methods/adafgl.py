r"""AdaFGL: a common model first; then each site, alone, learns how far to trust its links.

Li et al., *AdaFGL: A New Paradigm for Federated Node Classification with Topology Heterogeneity*,
ICDE 2024.

In the first rounds a GCN, the extractor, is trained by FedAvg. Then it is frozen, and each site
trains two branches on what it says of the site's graph. One trusts that neighbours are alike:
features are propagated over links and over similar predictions, and are classified near what the
extractor knows. The other is the mean of three networks, which see features alone, propagated
features, and messages that are positive or negative. Label propagation among training nodes, half
of whose labels are hidden, says how much either branch counts:

.. math::
    \tilde P = \alpha \tilde A + (1 - \alpha) \tilde S, \quad S_{ij} = \cos(\hat P_i, \hat P_j),
    \qquad H = \operatorname{MLP}(X, \tilde P X, \dots, \tilde P^k X), \qquad
    L_K = \operatorname{mean}\, (\operatorname{softmax}(H) - \hat P)^2

.. math::
    M_i = Z_i + a \operatorname{mean}_{j \ne i} (R_{ij} - \bar R) Z_j, \quad
    R = \beta S + (1 - \beta) S(Z), \qquad
    \hat Y = c\, \hat Y_{ho} + (1 - c)\, \hat Y_{he}

==========================  =================================================================
symbol                      name here
==========================  =================================================================
:math:`\hat P`              ``known``: class probabilities of the extractor, without dropout
:math:`\tilde A, \tilde S`  links and similarities with self loops and the symmetric norm
:math:`\alpha`              ``link_share``
:math:`k`                   ``hops``
:math:`L_K`                 the knowledge-preserving loss, times ``knowledge``
:math:`Z`                   ``sending``: a network over propagated features
:math:`a`                   ``strength``: learned
:math:`\beta`               ``known_share``
:math:`c`                   ``confidence``: the share of hidden labels that are found
==========================  =================================================================

The paper's abstract and two programs of its authors (AdaFGL, and the one in OpenFGL) were read; the
symbols are ours. In the personal phase the loss is the cross-entropy of :math:`\hat Y` and that of
each of its parts, and :math:`L_K`; in OpenFGL's program it is the same without the first. Defaults
are those of one of the programs, except for the phases. OpenFGL's has 50 rounds of three epochs and
then 50 epochs at each site, the other 100 rounds and 200 epochs. Here a round has one epoch in the
first 40 rounds (``shared_rounds``) and five in later ones (``personal_epochs``), which are 50 in a
run of 50 rounds. A run of at most ``shared_rounds`` rounds is FedAvg.

The programs add links and similarities before they are normalised, so that similar nodes, who are
many, outweigh neighbours; here each has its share (this and the five epochs were chosen by one
run's validation accuracy on Cora). There, :math:`\hat P` passes a second softmax, similarities are
1 above 0.999 and 0 below, :math:`L_K` compares logits with probabilities, and messages are sums
over positive and over negative weights, each of which passes a softmax. Here probabilities are
compared, similarities stay what they are, and both signs are in one mean. So no matrix of all pairs
of nodes is needed. In the first program a site uses only one of its branches. All networks have
``layers`` layers; in the programs the heterophilous ones have one more.

The extractor's parameters leave a site in the first rounds. Later only numbers such as scores do,
though the server goes on sending the extractor. Secure sums and robust rules need replies with all
arrays: ``--activation everyone`` makes sites return the frozen extractor too.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any, ClassVar

import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor
from torch.nn import functional

from ramet.models.adaptive_gcn import AdaptiveGCN
from ramet.models.propagation import propagated
from ramet.models.settings import NodeNetwork
from ramet.options import Share
from ramet.payload import Payload, only
from ramet.rules.activation import Asked, WithoutMemory
from ramet.rules.method import Method
from ramet.rules.server import Server
from ramet.tasks import NodeClassification
from ramet.training.local import LocalTraining, Penalty, Session, Term


@dataclass(frozen=True)
class FirstRounds(WithoutMemory):
    """All clients; they send all shared arrays in the first ``rounds`` rounds, and none later."""

    rounds: PositiveInt
    asks_parts: ClassVar[bool] = True

    def ask(self, state: Payload, server: Server) -> Asked:  # noqa: ARG002
        omitted = () if server.round <= self.rounds else server.switchable
        return dict.fromkeys(server.clients, omitted)


@dataclass(frozen=True)
class HiddenLabels:
    """Label propagation that hides some training nodes' labels, to see whether it finds them.

    Args:
        hidden_share: the share of training nodes whose labels are hidden, rounded up.
        label_steps: steps of the propagation.
    """

    hidden_share: Share = 0.5
    label_steps: NonNegativeInt = 10

    def found(self, graph: Any, order: Tensor) -> float:
        """The share of a NodeGraph's hidden labels that are found; 0.5 without any hidden label.

        ``order`` is a permutation of the training nodes, of which the last ones are hidden.
        """
        nodes, labels = graph.trained_nodes[order], graph.trained_labels[order]
        count = int((1 - self.hidden_share) * len(nodes))
        given, hidden = nodes[:count], nodes[count:]
        if not len(hidden):
            return 0.5
        shape = graph.nodes, graph.classes
        start = torch.full(shape, 1 / graph.classes, device=nodes.device)
        start[given] = functional.one_hot(labels[:count], graph.classes).to(start)
        guesses = propagated(graph, start, given, self.label_steps)[hidden].argmax(dim=1)
        return float((guesses == labels[count:]).double().mean())


@dataclass(frozen=True)
class TwoPhases(LocalTraining):
    """Training of the extractor in the first ``shared_rounds`` rounds, then of the branches.

    Args:
        shared_rounds: rounds in which the extractor is trained.
        personal_epochs: passes over the client's graph in each later round.
    """

    lr: PositiveFloat = 0.01
    shared_rounds: PositiveInt = 40
    personal_epochs: PositiveInt = 5

    def fit(self, session: Session, penalty: Penalty | None = None) -> float:
        """Train in place and return the mean loss over all batches, without the penalty."""
        if session.randomness.round <= self.shared_rounds:
            return super().fit(session)
        longer = replace(self, epochs=self.personal_epochs)
        return LocalTraining.fit(longer, session, penalty)


@dataclass(frozen=True)
class PersonalLoss:
    """Switch to the personal prediction; the term is the loss of its parts, and of forgetting."""

    knowledge: float
    hidden_labels: HiddenLabels

    def __call__(self, session: Session) -> Term:
        model, task = session.model, session.task
        assert isinstance(model, AdaptiveGCN)
        if not model.personal:
            self._begin(model, session)

        def term(batch: Any, output: Tensor) -> Tensor:  # noqa: ARG001
            parts = model.parts(batch)
            losses = [task.loss(logits, batch) for logits in (parts.smoothed, *parts.others)]
            forgotten = functional.mse_loss(parts.smoothed.softmax(dim=1), parts.known)
            return torch.stack(losses).sum() + self.knowledge * forgotten

        return term

    def _begin(self, model: AdaptiveGCN, session: Session) -> None:
        draws = session.randomness.generator("hidden labels")
        (graph,) = session.task.batches(session.samples, 1, draws)
        order = torch.randperm(len(graph.trained_nodes), generator=draws).to(session.device)
        model.confidence.fill_(self.hidden_labels.found(graph.to(session.device), order))
        model.personal.fill_(True)


def adafgl(
    network: NodeNetwork = NodeNetwork(),  # noqa: B008 (frozen)
    training: TwoPhases = TwoPhases(),  # noqa: B008
    hidden_labels: HiddenLabels = HiddenLabels(),  # noqa: B008
    hops: NonNegativeInt = 3,
    link_share: Share = 0.5,
    known_share: Share = 0.2,
    knowledge: NonNegativeFloat = 1.0,
) -> Method:
    """FedAvg first; then sites train alone, weighing two branches by how similar neighbours are."""
    model = partial(
        AdaptiveGCN, settings=network, hops=hops, link_share=link_share, known_share=known_share
    )
    return Method(
        name="adafgl",
        paper="arXiv:2401.11750",
        model=model,
        task=NodeClassification(),
        training=training,
        shared=only("extractor.*"),
        activation=FirstRounds(training.shared_rounds),
        penalty=PersonalLoss(knowledge, hidden_labels),
        phases=(training.shared_rounds + 1,),
    )
