"""FedPer: share the base layers, keep the personal layers private.

Arivazhagan et al., *Federated Learning with Personalization Layers*, 2019.

==============================  ==============================================================
paper's words                   name here
==============================  ==============================================================
base layers                     what FedAvg shares, up to the last ``personal`` layers: shared
personalization layers          the last ``personal`` layers and the head: private
==============================  ==============================================================

In FedStar's table FedPer is very likely run over FedStar's network: the program averages what it
calls ``graph_convs``, which are the convolutions of both channels. With ``channels=two`` the method
is that, with FedStar's network and encodings.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

from pydantic import NonNegativeInt

from ramet.errors import RametError
from ramet.methods.authors import Authors, Deviation
from ramet.methods.fedavg import fedavg
from ramet.methods.fedstar import fedstar
from ramet.models.settings import GraphNetwork
from ramet.payload import only
from ramet.rules.method import Method
from ramet.rules.sharing import BaseLayers

_PAPER = "arXiv:1912.00818"


def fedper(personal: NonNegativeInt = 1, channels: Literal["one", "two"] = "one") -> Method:
    """Share what FedAvg shares, without the last layer and the head."""
    if channels == "one":
        return replace(fedavg(), name="fedper", paper=_PAPER, shared=BaseLayers(personal))
    base = GraphNetwork().layers - personal
    if base < 1:
        raise RametError(
            f"personal={personal} leaves none of {GraphNetwork().layers} message-passing layers to "
            "share. Choose a smaller value."
        )
    shared = [
        f"{part}.{layer}.*" for part in ("layers", "structure.layers") for layer in range(base)
    ]
    return replace(fedstar(isolated_as_one=True), name="fedper", paper=_PAPER, shared=only(*shared))


AUTHORS = Authors(
    setting="single",
    deviations=(
        Deviation("channels", "two", "FedStar's lib/server.py: aggregate_weights_per, graph_convs"),
        Deviation("personal", "0", "FedStar's lib/server.py: all layers of graph_convs"),
    ),
    not_followed=("FedStar's paper does not say which network FedPer has; this is a reading.",),
)
"""As in FedStar's table."""
