r"""FedAvg: average everything that has the same size at every site.

McMahan et al., *Communication-Efficient Learning of Deep Networks from Decentralized Data*, 2017.

.. math:: \bar w^{(t+1)} = \sum_i \frac{|d_i|}{|D|}\, w_i^{(t)}

=====================  ==========================================
paper symbol           name here
=====================  ==========================================
:math:`w_i`            the arrays in a client's reply
:math:`|d_i|`          ``weight``: the client's training samples
:math:`\bar w`         the state of :class:`WeightedMean`
=====================  ==========================================

On parts of one graph or one dataset this is the whole network. Clients from different domains
differ in the number of features and classes, so the input layer and the head stay private and the
layers between them are shared.
"""

from __future__ import annotations

from ramet.methods.base import Method
from ramet.methods.merging import WeightedMean
from ramet.methods.sharing import SameSize


def fedavg() -> Method:
    """Average everything that has the same size at every site."""
    return Method(
        name="fedavg",
        paper="arXiv:1602.05629",
        shared=SameSize(),
        merging=WeightedMean(),
    )
