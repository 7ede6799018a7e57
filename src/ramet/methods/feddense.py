r"""FedDense: let every layer see all earlier maps of both channels, and make the layers narrow.

Wang et al., *Optimizing Federated Graph Learning with Inherent Structural Knowledge and
Dual-Densely Connected GNNs*. Structure encodings and sharing are FedStar's; the network is new:

.. math::
    c_v^{(\ell)} = [H(x_v^{(0)}, \dots, x_v^{(\ell-1)}),\; H(s_v^{(0)}, \dots, s_v^{(\ell-1)})],
    \qquad \bar w_s = \sum_i \frac{|d_i|}{|D|}\, w_{s,i}

=======================  ==========================================================
paper symbol             name here
=======================  ==========================================================
:math:`r`                ``width``: of every map but the first of each channel
:math:`x^{(\ell)}`       ``features[ℓ]`` in :class:`DenseDualChannel`
:math:`s^{(\ell)}`       ``structures[ℓ]``
:math:`w_s`              ``structure.*``: shared
:math:`H`                relu, then dropout; where it stands is ``activate``
=======================  ==========================================================

The first maps are ``hidden`` wide: the paper's text says r, its Table 3 says 64.
"""

from __future__ import annotations

from functools import partial
from typing import Literal

from pydantic import PositiveInt

from ramet.methods.base import Method
from ramet.methods.merging import WeightedMean
from ramet.methods.training import LocalTraining
from ramet.models import Chance, DenseDualChannel
from ramet.payload import only
from ramet.tasks import StructureEncoding


def feddense(
    width: PositiveInt = 32,
    activate: Literal["maps", "inputs"] = "maps",
    degrees: PositiveInt = 16,
    walk: PositiveInt = 16,
    hidden: PositiveInt = 64,
    layers: PositiveInt = 3,
    dropout: Chance = 0.5,
    training: LocalTraining = LocalTraining(),  # noqa: B008 (frozen)
) -> Method:
    """Share a narrow structure channel; connect both channels densely."""
    network = partial(DenseDualChannel, width=width, hidden=hidden, layers=layers)
    return Method(
        name="feddense",
        paper="Wang et al., FedDense",
        model=partial(network, dropout=dropout, activate=activate),
        inputs=StructureEncoding(degrees, walk),
        shared=only("structure.*"),
        training=training,
        merging=WeightedMean(),
    )
