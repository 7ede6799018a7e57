r"""FedDA: ask clients only for tensors with large updates, and pause clients with too few.

Gu et al., *Dynamic Activation of Clients and Parameters for Federated Learning over Heterogeneous
Graphs*, 2022.

After each round, a tensor is switched off for a client if the client's update of it is below the
mean over the clients asked for it. A client with too few tensors left becomes inactive:

.. math:: I_i[k] \leftarrow 0 \;\text{ if }\; s_{i,k} < \tfrac{1}{|A_k|} \sum_{j \in A_k} s_{j,k},
          \qquad D_i \text{ leaves if } \sum_{k \in [N_d]} I_i[k] < \alpha N_d

=============================  ================================================================
paper symbol                   name here
=============================  ================================================================
:math:`[N_d]`                  the ``switchable`` arrays, by default those of the network
:math:`I_i`                    a client's array in the state: 1 where a tensor is asked for
:math:`\mathcal{D}_A`          the clients that ``ask`` returns
:math:`s_{i,k}`                ``score``: mean absolute update of the tensor
:math:`\alpha`                 ``alpha``
:math:`\beta_r, \beta_e`       ``beta`` of :class:`Restart` and of :class:`Explore`
=============================  ================================================================

The paper's eq. 7 compares raw weights with their sign. Its text and the authors' program use the
size of the update, and so does this file. The client with the largest update of a tensor always
keeps it, so a single client stays active. Both rules work with every method whose merging accepts
partial replies.

Two options are not in the paper. With ``keep_own``, spared tensors are not sent to the client
either, and the client trains its own copy until it is asked for everything again. With
``train_away``, an inactive client is spared all tensors but keeps training, which matters if
clients have private parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean
from typing import ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ramet.methods.activation import Choice, Scores, Spared
from ramet.methods.base import Method
from ramet.methods.fedavg import fedavg
from ramet.options import Share
from ramet.payload import Arrays, Payload
from ramet.randomness import Randomness

Masks: TypeAlias = dict[str, NDArray[np.uint8]]
"""Client to mask [switchable], 1 where asked for; clients without one are asked for everything."""


class _ByUpdateSize(ABC):
    """Switches tensors off by the size of their updates; subclasses choose who returns."""

    alpha: float
    keep_own: bool
    train_away: bool
    asks_parts: ClassVar[bool] = True

    @abstractmethod
    def _returning(
        self, active: Sequence[str], away: Sequence[str], gone: Sequence[str], draws: Randomness
    ) -> Sequence[str]:
        """Choose the clients that are asked for everything again.

        ``away`` were inactive before this round, ``gone`` become inactive now, ``active`` are the
        others.
        """

    def ask(self, state: Payload, choice: Choice) -> Spared:
        masks = dict(state.arrays)
        everything = np.ones(len(choice.switchable), np.uint8)

        def spared(client: str) -> list[str]:
            if self._inactive(masks, client):
                return [*choice.switchable]
            pairs = zip(choice.switchable, masks.get(client, everything), strict=True)
            return [name for name, asked in pairs if not asked]

        return {
            client: spared(client)
            for client in choice.clients
            if self.train_away or not self._inactive(masks, client)
        }

    def score(
        self,
        sent: Arrays,
        received: Arrays,
        numbers: Mapping[str, float],  # noqa: ARG002
    ) -> Mapping[str, float]:
        return {
            name: float(np.abs(array.astype(np.float64) - sent[name]).mean())
            for name, array in received.items()
        }

    def settle(self, state: Payload, choice: Choice, scores: Scores) -> Payload:
        before: Masks = dict(state.arrays)
        after = _switched_off(before, choice.switchable, scores)
        away = [client for client in choice.clients if self._inactive(before, client)]
        active = [client for client in choice.clients if not self._inactive(after, client)]
        gone = sorted({*choice.clients} - {*active} - {*away})
        back = set(self._returning(active, away, gone, choice.randomness))
        return Payload({client: mask for client, mask in after.items() if client not in back})

    def _inactive(self, masks: Mapping[str, NDArray[np.uint8]], client: str) -> bool:
        mask = masks.get(client)
        return mask is not None and bool(mask.sum(dtype=np.int64) < self.alpha * mask.size)


@dataclass(frozen=True)
class Restart(_ByUpdateSize):
    """When fewer than ``beta`` of all clients are active, all return with all tensors."""

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
class Explore(_ByUpdateSize):
    """Random inactive clients return, until ``beta`` of all clients are active.

    A client that becomes inactive stays out of the next round, unless no other client is left.
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
        return [candidates[index] for index in order[: max(0, places - len(active))]]


def _switched_off(before: Masks, switchable: Sequence[str], scores: Scores) -> Masks:
    """The masks after switching off tensors whose score is strictly below the mean."""
    after = {client: mask.copy() for client, mask in before.items()}
    for index, name in enumerate(switchable):
        by_client = {client: own[name] for client, own in sorted(scores.items()) if name in own}
        if not by_client:
            continue
        # the mean can exceed equal scores by a rounding error
        threshold = min(fmean(by_client.values()), max(by_client.values()))
        for client, score in by_client.items():
            if score < threshold:
                after.setdefault(client, np.ones(len(switchable), np.uint8))[index] = 0
    return after


def fedda(activation: Restart = Restart()) -> Method:  # noqa: B008 (frozen)
    """FedAvg with clients and tensors activated by the size of their updates."""
    return replace(fedavg(), name="fedda", paper="FedGraph 2022", activation=activation)
