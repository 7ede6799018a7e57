r"""FedDense: narrow layers that read all earlier feature maps of both channels.

Wang et al., *Optimizing Federated Graph Learning with Inherent Structural Knowledge and
Dual-Densely Connected GNNs*. Structure encodings and sharing are FedStar's. The network is new:

.. math::
    c_v^{(\ell)} = [H(x_v^{(0)}, \dots, x_v^{(\ell-1)}),\; H(s_v^{(0)}, \dots, s_v^{(\ell-1)})],
    \qquad \bar w_s = \sum_i \frac{|d_i|}{|D|}\, w_{s,i}

=======================  ==========================================================
paper symbol             name here
=======================  ==========================================================
:math:`r`                ``width``: of every map except the first of each channel
:math:`x^{(\ell)}`       ``features[ℓ]`` in :class:`DenseDualChannel`
:math:`s^{(\ell)}`       ``structures[ℓ]``
:math:`w_s`              ``structure.*``: shared
:math:`H`                relu, then dropout; ``activate`` says where it is applied
=======================  ==========================================================

The first maps have width ``hidden``: the paper's text says r, its Table 3 says 64. It also says
that all non-linear transformations are relu, then dropout, while our structure channel has
FedStar's tanh; ``structure_maps=relu`` or ``protocol=authors`` follow the text.
"""

from __future__ import annotations

from functools import partial

from pydantic import PositiveInt

from ramet.methods.authors import Authors, Deviation
from ramet.models.dense_dual_channel import DenseDualChannel
from ramet.models.settings import DenseNetwork
from ramet.payload import only
from ramet.rules.merging import WeightedMean
from ramet.rules.method import Method
from ramet.tasks import GraphClassification, StructureEncoding


def feddense(
    degrees: PositiveInt = 16,
    walk: PositiveInt = 16,
    network: DenseNetwork = DenseNetwork(),  # noqa: B008 (frozen)
) -> Method:
    """Share the narrow structure channel of a densely connected network."""
    return Method(
        name="feddense",
        paper="Wang et al., FedDense",
        model=partial(DenseDualChannel, settings=network),
        inputs=StructureEncoding(degrees, walk),
        shared=only("structure.*"),
        task=GraphClassification(),
        merging=WeightedMean(),
    )


AUTHORS = Authors(
    setting="single",
    deviations=(
        Deviation(
            "structure_maps",
            "relu",
            "Implementation Details: all non-linear transformations are ReLU followed by Dropout",
        ),
    ),
    not_followed=(
        "Whether the split moves with the seed is not said, but the printed deviations are as "
        "large as those of fresh test data: use --splits.",
        "Equations 7 and 8 apply H to concatenated inputs: a reading of its own, activate=inputs.",
    ),
)
