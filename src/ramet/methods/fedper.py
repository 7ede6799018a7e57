"""FedPer: share the base layers, keep the personal layers private.

Arivazhagan et al., *Federated Learning with Personalization Layers*, 2019.

==============================  =========================================================
paper's words                   name here
==============================  =========================================================
base layers                     all GIN layers except the last ``personal``: shared
personalization layers          the last ``personal`` GIN layers and the head: private
==============================  =========================================================

Across domains the input layer cannot be shared either, because the number of features differs. So
FedPer is here FedAvg without the last GIN layer. Clients of one domain can share the input layer
too: ``--share 'embed.*' --share 'layers.0.*' --share 'layers.1.*'``.
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import PositiveInt

from ramet.errors import RametError
from ramet.methods.base import Method
from ramet.methods.fedavg import fedavg
from ramet.methods.training import LocalTraining
from ramet.models import GraphNetwork
from ramet.payload import only


def fedper(
    personal: PositiveInt = 1,
    network: GraphNetwork = GraphNetwork(),  # noqa: B008 (frozen)
    training: LocalTraining = LocalTraining(),  # noqa: B008 (frozen)
) -> Method:
    """Share all GIN layers except the last."""
    shared = range(network.layers - personal)
    if not shared:
        raise RametError(
            f"personal={personal} leaves none of {network.layers} layers to share. Choose a "
            "smaller value."
        )
    return replace(
        fedavg(network, training),
        name="fedper",
        paper="arXiv:1912.00818",
        shared=only(*(f"layers.{layer}.*" for layer in shared)),
    )
