"""FedSage for whole graphs: FedAvg over GraphSAGE.

Zhang et al., *Subgraph Federated Learning with Missing Neighbor Generation*, NeurIPS 2021. FedSage+
generates neighbours for links cut between subgraphs. Clients that hold whole graphs have no cut
links, so this is the paper's base model under FedAvg, as in FedStar's and FedDense's comparisons.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ramet.methods.base import Method
from ramet.methods.fedavg import fedavg
from ramet.methods.training import LocalTraining
from ramet.models import GraphNetwork, GraphSAGE


def fedsage(
    network: GraphNetwork = GraphNetwork(),  # noqa: B008 (frozen)
    training: LocalTraining = LocalTraining(),  # noqa: B008 (frozen)
) -> Method:
    """Share the GraphSAGE layers."""
    return replace(
        fedavg(training=training),
        name="fedsage",
        paper="arXiv:2106.13430",
        model=partial(GraphSAGE, settings=network),
    )
