r"""FedSage+: sites that hold parts of one graph generate the neighbours they are missing.

Zhang, Yang, Li, Sun and Yiu, *Subgraph Federated Learning with Missing Neighbor Generation*,
NeurIPS 2021.

Links between two sites are in no site's graph, so nodes near a border have too few neighbours. Each
site hides some of its nodes and trains a generator to predict, from the rest, how many neighbours a
node is missing and their features. The site then mends its graph with generated neighbours. The
classifier is trained on mended graphs under FedAvg:

.. math:: L = L_c + \lambda_d L_d + \lambda_f L_f

with cross-entropy :math:`L_c` on the mended graph and :math:`L_d, L_f` on the impaired one.

====================================  =====================================================
paper symbol                          name here
====================================  =====================================================
:math:`h`                             ``hide``: the share of nodes hidden
:math:`H^e, \theta^e`                 ``generator.layers``
dGen, :math:`\theta^d`                ``generator.count``
fGen, :math:`\theta^f`                ``generator.draw``
:math:`n_v, \tilde n_v`               ``missing``, ``counts``
:math:`g`                             ``most``: maximum of generated neighbours per node
:math:`N(0, 1)`                       ``noise``: its standard deviation
:math:`\lambda^d, \lambda^f`          ``count_weight``, ``feature_weight``
====================================  =====================================================

In the paper a site's generator also learns from other sites' nodes, through embeddings and
gradients that sites exchange. Here only declared arrays leave a site: generators are averaged like
the classifier, or stay private (``generator=home``).
"""

from __future__ import annotations

from functools import partial
from typing import Any, Literal

from pydantic import NonNegativeFloat, PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from ramet.models.missing_neighbours import impaired
from ramet.models.node_sage import MendedSAGE
from ramet.models.settings import NodeNetwork
from ramet.options import ProperShare
from ramet.payload import everything, only
from ramet.rules.method import Method
from ramet.tasks import NodeClassification, NodeSamples
from ramet.training.local import Session, Term


@dataclass(frozen=True)
class MissingNeighbours:
    """The generator's two losses on the client's graph, with new hidden nodes in each pass."""

    hide: ProperShare
    count_weight: NonNegativeFloat
    feature_weight: NonNegativeFloat

    def __call__(self, session: Session) -> Term:
        model, samples = session.model, session.samples
        assert isinstance(model, MendedSAGE)
        assert isinstance(samples, NodeSamples)
        graph = samples.training_graph.to(session.device)

        def term(batch: Any, output: Tensor) -> Tensor:  # noqa: ARG001
            counts, features = model.generator.losses(impaired(graph, self.hide))
            return self.count_weight * counts + self.feature_weight * features

        return term


def fedsage_plus(
    network: NodeNetwork = NodeNetwork(),  # noqa: B008 (frozen)
    most: PositiveInt = 5,
    hide: ProperShare = 0.5,
    noise: NonNegativeFloat = 0.1,
    count_weight: NonNegativeFloat = 1.0,
    feature_weight: NonNegativeFloat = 1.0,
    generator: Literal["shared", "home"] = "shared",
) -> Method:
    """FedSage on graphs that each site mends with generated neighbours."""
    return Method(
        name="fedsage+",
        paper="arXiv:2106.13430",
        model=partial(MendedSAGE, settings=network, most=most, noise=noise),
        task=NodeClassification(),
        shared=everything if generator == "shared" else only("classifier.*"),
        penalty=MissingNeighbours(hide, count_weight, feature_weight),
    )
