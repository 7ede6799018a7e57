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

With ``site_model=trained`` a client evaluates and keeps the network as it was after its own last
training, before the merge, as the programs of some papers do.
"""

from __future__ import annotations

from ramet.rules.merging import WeightedMean
from ramet.rules.method import Method
from ramet.rules.sharing import SameSize
from ramet.rules.site_model import SiteModel, with_site_model


def fedavg(site_model: SiteModel = "merged") -> Method:
    """Average everything that has the same size at every site."""
    method = Method(
        name="fedavg",
        paper="arXiv:1602.05629",
        shared=SameSize(),
        merging=WeightedMean(),
    )
    return with_site_model(method, site_model)
