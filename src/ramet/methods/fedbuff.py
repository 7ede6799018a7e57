r"""FedBuff: the server steps as soon as a few clients have replied, and weights stale updates less.

Nguyen et al., *Federated Learning with Buffered Asynchronous Aggregation*, AISTATS 2022.

.. math:: x \leftarrow x + \eta_g \frac{1}{K} \sum_{i=1}^{K} \frac{\Delta_i}{\sqrt{1 + \tau_i}}

=========================  ==============================================================
paper symbol               name here
=========================  ==============================================================
:math:`K`                  ``count`` of :class:`FirstReplies`
:math:`\Delta_i`           a client's update of the arrays that it was sent
:math:`\tau_i`             ``stale``: merges since then, set by the pace
:math:`\eta_g`             ``server_lr``
=========================  ==============================================================

The engine moves late replies to the current arrays, so that their difference from these is the
update. How long clients take is simulated. Buffers, such as those of a batch norm, are moved with a
server_lr of 1: a longer step could make a variance negative.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from pydantic import PositiveFloat
from pydantic.dataclasses import dataclass

from ramet.methods.fedavg import fedavg
from ramet.payload import Arrays, Payload, nothing
from ramet.rules.merging import Summing, cast
from ramet.rules.method import Method
from ramet.rules.pace import FirstReplies
from ramet.rules.server import Server

_TRUST, _REPLIES = "/trust", "/replies"


@dataclass(frozen=True)
class StaleMean(Summing):
    """The mean of the updates, each divided by the root of 1 + the merges it has missed."""

    server_lr: PositiveFloat = 1.0

    def term(self, reply: Payload) -> Arrays:
        trust = np.asarray((1 + reply.numbers["stale"]) ** -0.5)
        scaled = {name: array.astype(np.float64) * trust for name, array in reply.arrays.items()}
        return {**scaled, _TRUST: trust, _REPLIES: np.asarray(1.0)}

    def step(self, state: Payload, total: Arrays, server: Server) -> Payload:
        moved = {}
        for name, now in state.arrays.items():
            rate = (1.0 if name in server.buffers else self.server_lr) / total[_REPLIES]
            moved[name] = cast(now + rate * (total[name] - total[_TRUST] * now), now.dtype)
        return Payload(moved)


def fedbuff(
    pace: FirstReplies = FirstReplies(),  # noqa: B008 (frozen)
    step: StaleMean = StaleMean(),  # noqa: B008 (frozen)
) -> Method:
    """FedAvg without waiting: a round ends with the first replies."""
    return replace(
        fedavg(),
        name="fedbuff",
        paper="arXiv:2106.06639",
        switchable=nothing,
        merging=step,
        pace=pace,
    )
