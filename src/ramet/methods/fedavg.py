r"""FedAvg: average the layers that all clients have in common.

McMahan et al., *Communication-Efficient Learning of Deep Networks from Decentralized Data*, 2017.

.. math:: \bar w^{(t+1)} = \sum_i \frac{|d_i|}{|D|}\, w_i^{(t)}

=====================  ==========================================
paper symbol           name here
=====================  ==========================================
:math:`w_i`            the arrays in a client's reply
:math:`|d_i|`          ``weight``: the client's training samples
:math:`\bar w`         the state of :class:`WeightedMean`
=====================  ==========================================

Clients from different domains differ in the number of features and classes, so the input layer and
the head stay private. The GIN layers between them are shared.
"""

from __future__ import annotations

from functools import partial

from ramet.methods.base import Method
from ramet.methods.merging import WeightedMean
from ramet.methods.training import LocalTraining
from ramet.models import GIN, GraphNetwork
from ramet.payload import only


def fedavg(
    network: GraphNetwork = GraphNetwork(),  # noqa: B008 (frozen)
    training: LocalTraining = LocalTraining(),  # noqa: B008 (frozen)
) -> Method:
    """Share the GIN layers."""
    return Method(
        name="fedavg",
        paper="arXiv:1602.05629",
        model=partial(GIN, settings=network),
        shared=only("layers.*"),
        training=training,
        merging=WeightedMean(),
    )
