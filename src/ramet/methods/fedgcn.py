r"""FedGCN: sites exchange sums over neighbours once, and then train under FedAvg.

Yao, Jin, Ravi and Joe-Wong, *FedGCN: Convergence-Communication Tradeoffs in Federated Training of
Graph Convolutional Networks*, NeurIPS 2023.

Links between two sites are in neither site's graph. Before round 1, each site sends, for each node
that has such links, the sum over those of its neighbours that the site holds. Added up over all
sites, these are what a GCN's first layer needs:

.. math:: \sum_{j \in N_i \cup i} \tilde A_{ij} x_j = (d_i + 1)^{-1/2}
          \sum_{k} \sum_{j \in (N_i \cup i) \cap V_k} (d_j + 1)^{-1/2} x_j

===============================================  ===============================================
symbol                                           name here
===============================================  ===============================================
:math:`x_j`                                      a node's features
:math:`N_i, d_i`                                 its neighbours at all sites, and their number
:math:`V_k`                                      the nodes of site k
:math:`\sum_j (d_j + 1)^{-1/2} x_j`              the extra ``sums``, a row for each such node
:math:`d_i`                                      the extra ``degrees``, added up in the same way
L-hop                                            ``hops``: 1 or 2
===============================================  ===============================================

With ``hops=1`` the first layer is that of the whole graph, and later ones see the site's own links.
With ``hops=2`` a site also uses the sums of the nodes elsewhere that its own are linked to, so that
a network of two layers has the same output for its nodes as on the whole graph. Without links
between sites, the method is FedAvg with a GCN.

The equations were checked against the whole graph, not against the authors' program. In the paper
sums are encrypted, and a site receives those that it needs. Here all sites receive all sums, which
are exact: those of a node with few neighbours tell their features. Only settings that cut one graph
into parts without common nodes know the links between sites.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any

import numpy as np
import torch
from pydantic import Field
from torch import Tensor, nn

from ramet.data.graphs.neighbour_sums import sums_for_others
from ramet.errors import RametError
from ramet.models.border_gcn import BorderGCN, all_degrees, scaled_features
from ramet.models.settings import NodeNetwork
from ramet.payload import Arrays, Payload, only
from ramet.rules.extras import Extras, Stage
from ramet.rules.merging import Summing
from ramet.rules.method import Method
from ramet.rules.server import Server
from ramet.tasks import NodeClassification, NodeSamples
from ramet.training.local import Session, Term

_EXCHANGED = ("sums", "degrees")


@dataclass(frozen=True)
class SumOverSites(Summing):
    """The plain sum of what sites send."""

    def term(self, reply: Payload) -> Arrays:
        return {name: reply.extras[name] for name in _EXCHANGED}

    def step(self, state: Payload, total: Arrays, server: Server) -> Payload:  # noqa: ARG002
        return Payload({n: total[n].astype(old.dtype) for n, old in state.arrays.items()})


def no_sums(model: nn.Module, shared: Sequence[str]) -> Mapping[str, Tensor]:  # noqa: ARG001
    """Start values: sums over no neighbours."""
    assert isinstance(model, BorderGCN)
    return {name: torch.zeros_like(getattr(model, name)) for name in _EXCHANGED}


def invalid_degrees(extras: Arrays) -> str | None:
    degrees = extras["degrees"]
    valid = (degrees >= 0).all() and (degrees == np.rint(degrees)).all()
    return None if valid else "degrees has values that are not degrees"


@torch.no_grad()
def send_sums(session: Session) -> None:
    """Send the sums over the site's nodes, and how many neighbours they are of."""
    samples = session.samples
    assert isinstance(samples, NodeSamples)
    graph, outside = samples.graph, samples.graph.outside
    sums, degrees = (torch.zeros_like(session.received[name]) for name in _EXCHANGED)
    if outside is not None and outside.rows:
        scaled = scaled_features(graph)
        sums = sums_for_others(graph, scaled)
        sums.index_add_(0, outside.row, scaled[outside.nodes])
        degrees = sums_for_others(graph, torch.ones_like(scaled[:, :1])).flatten().to(degrees)
    session.sending.update(sums=sums, degrees=degrees)


def read_sums(session: Session) -> Term:
    """Put the received sums into the network; the loss has no further term."""
    model = session.model
    assert isinstance(model, BorderGCN)
    for name in _EXCHANGED:
        getattr(model, name).copy_(session.received[name])
    _check_complete(session.samples, model)

    def term(batch: Any, output: Tensor) -> Tensor:  # noqa: ARG001
        return output.new_zeros(())

    return term


def _check_complete(samples: Any, model: BorderGCN) -> None:
    graph, outside = samples.graph, samples.graph.outside
    if outside is None or not outside.rows:
        return
    counted, known = model.degrees[outside.row], all_degrees(graph)[outside.nodes]
    if not counted.equal(known.to(counted)):
        raise RametError(
            "fedgcn needs the sums of all sites in round 1, but those of some are missing: a site "
            "did not reply, or was not asked. Run it with all sites, without --activation."
        )


def fedgcn(
    network: NodeNetwork = NodeNetwork(),  # noqa: B008 (frozen)
    hops: Annotated[int, Field(ge=1, le=2)] = 2,
) -> Method:
    """FedAvg with a GCN that knows the sums over neighbours at other sites."""
    return Method(
        name="fedgcn",
        paper="arXiv:2201.12433",
        model=partial(BorderGCN, settings=network, hops=hops),
        task=NodeClassification(),
        shared=only("layers.*"),
        penalty=read_sums,
        stages=(
            Stage("sums", Extras(no_sums, SumOverSites(), invalid_degrees), send_sums, last=1),
        ),
    )
