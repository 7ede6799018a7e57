r"""FedStar: share structural knowledge between domains whose features differ.

Tan et al., *Federated Learning on Non-IID Graphs via Structural Knowledge Sharing*, AAAI 2023.

Every client trains a feature channel and a structure channel. The structure channel sees only
structure encodings, and it is the only part that is averaged:

.. math:: \bar w_g = \sum_m \frac{|D_m|}{N}\, w_{g,m}

=====================  ====================================================
paper symbol           name here
=====================  ====================================================
:math:`w_{h,m}`        every parameter outside ``structure.*``: private
:math:`w_{g,m}`        ``structure.*``: shared
:math:`s_v`            ``Batch.structure``, computed by ``StructureEncoding``
:math:`k_1, k_2`       ``degrees``, ``walk``
:math:`|D_m|`          ``weight``: the client's training graphs
=====================  ====================================================
"""

from __future__ import annotations

from functools import partial

from pydantic import PositiveInt

from ramet.methods.authors import Authors, Deviation
from ramet.models.dual_channel import DualChannel
from ramet.models.settings import GraphNetwork
from ramet.payload import only
from ramet.rules.merging import WeightedMean
from ramet.rules.method import Method
from ramet.tasks import GraphClassification, StructureEncoding


def fedstar(
    degrees: PositiveInt = 16,
    walk: PositiveInt = 16,
    isolated_as_one: bool = False,
    network: GraphNetwork = GraphNetwork(),  # noqa: B008 (frozen)
) -> Method:
    """Share the structure channel only; everything else is private."""
    return Method(
        name="fedstar",
        paper="arXiv:2211.13009",
        model=partial(DualChannel, settings=network),
        inputs=StructureEncoding(degrees, walk, isolated_as_one),
        shared=only("structure.*"),
        task=GraphClassification(),
        merging=WeightedMean(),
    )


AUTHORS = Authors(
    setting="single",
    deviations=(
        Deviation(
            "isolated_as_one",
            "true",
            "lib/utils.py: init_structure_encoding counts degree 0 as degree 1",
        ),
    ),
)
