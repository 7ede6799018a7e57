r"""FedDA: ask a client only for what it changes more than others, and leave out who gives little.

Gu et al., *Dynamic Activation of Clients and Parameters for Federated Learning over Heterogeneous
Graphs*, 2022.

After each round a client's tensor whose update is smaller than the mean of those asked is switched
off for that client; a client that is asked for too little leaves:

.. math:: I_i[k] \leftarrow 0 \;\text{ if }\; s_{i,k} < \tfrac{1}{|A_k|} \sum_{j \in A_k} s_{j,k},
          \qquad D_i \text{ leaves if } \sum_{k \in [N_d]} I_i[k] < \alpha N_d

=============================  ================================================================
paper symbol                   name here
=============================  ================================================================
:math:`[N_d]`                  the method's ``switchable`` arrays
:math:`I_i`                    a client's array in the state: 1 where it is asked
:math:`\mathcal{D}_A`          the clients that ``ask`` gives
:math:`s_{i,k}`                ``score``: mean size of the client's update of the tensor
:math:`\alpha`                 ``alpha``
:math:`\beta_r, \beta_e`       ``beta`` of :class:`Restart` and of :class:`Explore`
=============================  ================================================================

The paper's eq. 7 compares raw weights with their sign; its text and its program mean the size of
the update, which is what is done here. The largest update is never switched off, so a lone client
does not switch itself off. The two rules run over every method whose merging takes partial replies.

Not in the paper: with ``keep_own`` a tensor that a client is spared is not sent to it either; the
client trains on with its own until it is asked for everything again. With ``train_away`` a client
that has left is spared everything, but trains on, which matters where clients have private parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from statistics import fmean
from typing import ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ramet.methods.activation import Choice, Scores, Spared
from ramet.methods.base import Method
from ramet.methods.merging import WeightedMean
from ramet.methods.training import LocalTraining
from ramet.models import HGNNetwork, SimpleHGN
from ramet.options import Share
from ramet.payload import Arrays, Payload, everything, nothing, only
from ramet.randomness import Randomness
from ramet.tasks import LinkPrediction

_LINK_TRAINING = LocalTraining(lr=5e-4, weight_decay=1e-4, batch_size=8192)
Asked: TypeAlias = dict[str, NDArray[np.uint8]]
"""Client to [switchable], 1 where it is asked; a client that is not named is asked for all."""


class _BySizeOfUpdate(ABC):
    """Switching off, which both rules do alike; how clients come back is each one's own."""

    alpha: float
    keep_own: bool
    train_away: bool
    asks_parts: ClassVar[bool] = True

    @abstractmethod
    def _returning(
        self, active: Sequence[str], away: Sequence[str], gone: Sequence[str], draws: Randomness
    ) -> Sequence[str]:
        """Who is asked for everything again.

        ``away`` had left before this round, ``gone`` leave now, ``active`` are the others.
        """

    def ask(self, state: Payload, choice: Choice) -> Spared:
        asked = dict(state.arrays)
        everything = np.ones(len(choice.switchable), np.uint8)

        def spared(client: str) -> list[str]:
            if self._left(asked, client):
                return [*choice.switchable]
            pairs = zip(choice.switchable, asked.get(client, everything), strict=True)
            return [name for name, wanted in pairs if not wanted]

        return {
            client: spared(client)
            for client in choice.clients
            if self.train_away or not self._left(asked, client)
        }

    def score(
        self,
        sent: Arrays,
        came: Arrays,
        numbers: Mapping[str, float],  # noqa: ARG002
    ) -> Mapping[str, float]:
        return {
            name: float(np.abs(array.astype(np.float64) - sent[name]).mean())
            for name, array in came.items()
        }

    def settle(self, state: Payload, choice: Choice, scores: Scores) -> Payload:
        before: Asked = dict(state.arrays)
        after = _switched_off(before, choice.switchable, scores)
        away = [client for client in choice.clients if self._left(before, client)]
        active = [client for client in choice.clients if not self._left(after, client)]
        gone = sorted({*choice.clients} - {*active} - {*away})
        back = set(self._returning(active, away, gone, choice.randomness))
        return Payload({client: a for client, a in after.items() if client not in back})

    def _left(self, asked: Mapping[str, NDArray[np.uint8]], client: str) -> bool:
        own = asked.get(client)
        return own is not None and bool(own.sum(dtype=np.int64) < self.alpha * own.size)


@dataclass(frozen=True)
class Restart(_BySizeOfUpdate):
    """When fewer than ``beta`` of all clients are left, all return and are asked for everything."""

    alpha: Share = 0.5
    beta: Share = 0.4
    keep_own: bool = False
    train_away: bool = False

    def _returning(
        self,
        active: Sequence[str],
        away: Sequence[str],
        gone: Sequence[str],
        draws: Randomness,  # noqa: ARG002
    ) -> Sequence[str]:
        clients = [*active, *away, *gone]
        return clients if not active or len(active) < self.beta * len(clients) else []


@dataclass(frozen=True)
class Explore(_BySizeOfUpdate):
    """Up to ``beta`` of all clients, places are filled by a draw of those that left earlier.

    Who leaves now stays out of the next round, unless nobody else is there.
    """

    alpha: Share = 0.5
    beta: Share = 0.667
    keep_own: bool = False
    train_away: bool = False

    def _returning(
        self, active: Sequence[str], away: Sequence[str], gone: Sequence[str], draws: Randomness
    ) -> Sequence[str]:
        places = max(1, round(self.beta * (len(active) + len(away) + len(gone))))
        candidates = away if active or away else gone
        order = torch.randperm(len(candidates), generator=draws.generator("return")).tolist()
        return [candidates[place] for place in order[: max(0, places - len(active))]]


def _switched_off(before: Asked, switchable: Sequence[str], scores: Scores) -> Asked:
    """What is asked of each client after these scores; strictly below the mean is too little."""
    after = {client: asked.copy() for client, asked in before.items()}
    for place, name in enumerate(switchable):
        given = {client: told[name] for client, told in sorted(scores.items()) if name in told}
        if not given:
            continue
        enough = min(fmean(given.values()), max(given.values()))
        for client, score in given.items():
            if score < enough:
                after.setdefault(client, np.ones(len(switchable), np.uint8))[place] = 0
    return after


def fed_hgn(
    network: HGNNetwork = HGNNetwork(),  # noqa: B008 (frozen)
    training: LocalTraining = _LINK_TRAINING,
) -> Method:
    """FedAvg of Simple-HGN: everyone is asked for everything."""
    return Method(
        name="fed-hgn",
        paper="doi:10.1145/3447548.3467350",
        model=partial(SimpleHGN, settings=network),
        shared=everything,
        training=training,
        switchable=only("project.*", "decode.*", "layers.*.kinds.*"),
        merging=WeightedMean(),
        task=LinkPrediction(),
    )


def local_hgn(
    network: HGNNetwork = HGNNetwork(),  # noqa: B008 (frozen)
    training: LocalTraining = _LINK_TRAINING,
) -> Method:
    """A Simple-HGN per client, nothing shared."""
    return replace(fed_hgn(network, training), name="local-hgn", shared=nothing)


def fedda(
    activation: Restart = Restart(),  # noqa: B008 (frozen)
    network: HGNNetwork = HGNNetwork(),  # noqa: B008 (frozen)
    training: LocalTraining = _LINK_TRAINING,
) -> Method:
    """Simple-HGN whose clients and tensors are asked for by what they give."""
    return replace(
        fed_hgn(network, training), name="fedda", paper="FedGraph 2022", activation=activation
    )
