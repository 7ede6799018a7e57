r"""FedAdam and FedYogi: the server moves by an adaptive step along the mean update.

Reddi et al., *Adaptive Federated Optimization*, ICLR 2021.

.. math::
    m \leftarrow \beta_1 m + (1 - \beta_1) \Delta, \qquad
    x \leftarrow x + \eta \frac{m}{\sqrt v + \tau}

with :math:`v \leftarrow \beta_2 v + (1 - \beta_2) \Delta^2` for FedAdam and
:math:`v \leftarrow v - (1 - \beta_2) \Delta^2 \operatorname{sign}(v - \Delta^2)` for FedYogi.

======================  ===============================================================
paper symbol            name here
======================  ===============================================================
:math:`\Delta`          the weighted mean of the replies minus what was sent
:math:`x, m, v`         ``now/``, ``mean/`` and ``square/`` in the state
:math:`\eta, \tau`      ``server_lr``, ``adaptivity``; v starts at its square
======================  ===============================================================

As in the paper, clients use plain SGD, and m and v are not corrected for their start. Only trained
parameters are stepped: buffers are averaged, because a step could make a variance negative, and so
are arrays that are not floats.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from pydantic import PositiveFloat
from pydantic.dataclasses import dataclass

from ramet.methods.fedavg import fedavg
from ramet.options import ProperShare
from ramet.payload import Array, Arrays, Payload, under
from ramet.rules.merging import WeightedMean
from ramet.rules.method import Method
from ramet.rules.server import Server
from ramet.rules.site_model import SiteModel
from ramet.training.local import LocalTraining


@dataclass(frozen=True)
class AdaptiveStep(WeightedMean):
    """A step of Adam, or of Yogi, along the mean update."""

    server_lr: PositiveFloat = 0.01
    adaptivity: PositiveFloat = 1e-3
    beta1: ProperShare = 0.9
    beta2: ProperShare = 0.99
    yogi: bool = False

    def start(self, shared: Arrays) -> Payload:
        moments = {f"mean/{name}": 0.0 * array for name, array in shared.items()} | {
            f"square/{name}": 0.0 * array + self.adaptivity**2 for name, array in shared.items()
        }
        return Payload({**{f"now/{name}": a for name, a in shared.items()}, **moments})

    def send(self, state: Payload, client: str) -> Arrays:  # noqa: ARG002
        return under("now/", state.arrays)

    def step(self, state: Payload, total: Arrays, server: Server) -> Payload:
        now = under("now/", state.arrays)
        arrays: dict[str, Array] = dict(state.arrays)
        for name, target in self.mean(now, total).items():
            if name in server.buffers or not np.issubdtype(target.dtype, np.floating):
                arrays[f"now/{name}"] = target
                continue
            update = target.astype(np.float64) - now[name]
            mean = self.beta1 * state.arrays[f"mean/{name}"] + (1 - self.beta1) * update
            square = self._square(state.arrays[f"square/{name}"].astype(np.float64), update**2)
            moved = now[name] + self.server_lr * mean / (np.sqrt(square) + self.adaptivity)
            for kind, array in (("now", moved), ("mean", mean), ("square", square)):
                arrays[f"{kind}/{name}"] = array.astype(target.dtype)
        return Payload(arrays)

    def _square(self, old: NDArray[np.float64], new: NDArray[np.float64]) -> NDArray[np.float64]:
        if self.yogi:
            return old - (1 - self.beta2) * new * np.sign(old - new)
        return self.beta2 * old + (1 - self.beta2) * new


def fedadam(
    step: AdaptiveStep = AdaptiveStep(),  # noqa: B008 (frozen)
    training: LocalTraining = LocalTraining(lr=0.1, algorithm="sgd"),  # noqa: B008
    site_model: SiteModel = "merged",
) -> Method:
    """FedAvg whose clients use SGD and whose server takes steps of Adam."""
    paper = "arXiv:2003.00295"
    own = fedavg(site_model)
    return replace(own, name="fedadam", paper=paper, merging=step, training=training)


def fedyogi(
    step: AdaptiveStep = AdaptiveStep(yogi=True),  # noqa: B008 (frozen)
    training: LocalTraining = LocalTraining(lr=0.1, algorithm="sgd"),  # noqa: B008
    site_model: SiteModel = "merged",
) -> Method:
    """FedAvg whose clients use SGD and whose server takes steps of Yogi."""
    return replace(fedadam(step, training, site_model), name="fedyogi")
