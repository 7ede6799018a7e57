"""FedPer: share the base layers, keep the personal layers private.

Arivazhagan et al., *Federated Learning with Personalization Layers*, 2019.

==============================  ==============================================================
paper's words                   name here
==============================  ==============================================================
base layers                     what FedAvg shares, up to the last ``personal`` layers: shared
personalization layers          the last ``personal`` layers and the head: private
==============================  ==============================================================
"""

from __future__ import annotations

from dataclasses import replace

from pydantic import PositiveInt

from ramet.methods.base import Method
from ramet.methods.fedavg import fedavg
from ramet.methods.sharing import BaseLayers


def fedper(personal: PositiveInt = 1) -> Method:
    """Share what FedAvg shares, without the last layer and the head."""
    return replace(fedavg(), name="fedper", paper="arXiv:1912.00818", shared=BaseLayers(personal))
