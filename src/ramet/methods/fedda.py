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
partial replies. The authors' program also switches off what is exactly at a threshold
(``ties_off``, ``ties_leave``), and restarts by tensors too; ``protocol=authors`` sets this and all
else in which it differs.

Two options are not in the paper. With ``keep_own``, omitted tensors are not sent to the client
either, and the client trains its own copy until it is asked for everything again. With
``train_away``, an inactive client omits all tensors but keeps training, which matters if
clients have private parts.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass as plain_dataclass
from dataclasses import replace
from statistics import fmean
from typing import ClassVar, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ramet.methods.authors import OTHERS, Authors, Deviation
from ramet.methods.fedavg import fedavg
from ramet.options import Share
from ramet.payload import Arrays, Payload
from ramet.randomness import Randomness
from ramet.rules.activation import Asked, ReplyScores
from ramet.rules.method import Method
from ramet.rules.server import Server

Masks: TypeAlias = dict[str, NDArray[np.uint8]]
"""Client to mask [switchable], 1 where asked for; clients without one are asked for everything."""


@plain_dataclass(frozen=True)
class _AfterRound:
    """Where the clients are after a round.

    Args:
        active: they stay active.
        away: they were inactive before the round.
        gone: they become inactive now.
        in_use: the share of the switchable tensors that some client has sent.
    """

    active: Sequence[str]
    away: Sequence[str]
    gone: Sequence[str]
    in_use: float

    @property
    def clients(self) -> list[str]:
        return [*self.active, *self.away, *self.gone]

    def at_most(self, share: float, active: int) -> bool:
        """The authors' condition for a restart, when so many clients are active."""
        return self.in_use < share or active <= share * len(self.clients)


class _ByUpdateSize(ABC):
    """Switches tensors off by the size of their updates; subclasses choose who returns."""

    alpha: float
    keep_own: bool
    train_away: bool
    ties_off: bool
    ties_leave: bool
    asks_parts: ClassVar[bool] = True

    @abstractmethod
    def _returning(self, after: _AfterRound, draws: Randomness) -> Sequence[str]:
        """Choose the clients that are asked for everything again."""

    def ask(self, state: Payload, server: Server) -> Asked:
        masks = dict(state.arrays)
        everything = np.ones(len(server.switchable), np.uint8)

        def omitted(client: str) -> list[str]:
            if self._inactive(masks, client):
                return [*server.switchable]
            pairs = zip(server.switchable, masks.get(client, everything), strict=True)
            return [name for name, asked in pairs if not asked]

        return {
            client: omitted(client)
            for client in server.clients
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

    def settle(self, state: Payload, server: Server, scores: ReplyScores) -> Payload:
        before: Masks = dict(state.arrays)
        after = _switched_off(before, server.switchable, scores, self.ties_off)
        away = [client for client in server.clients if self._inactive(before, client)]
        active = [client for client in server.clients if not self._inactive(after, client)]
        gone = sorted({*server.clients} - {*active} - {*away})
        sent = {name for own in scores.values() for name in own}
        in_use = len(sent & {*server.switchable}) / max(1, len(server.switchable))
        back = set(self._returning(_AfterRound(active, away, gone, in_use), server.randomness))
        return Payload({client: mask for client, mask in after.items() if client not in back})

    def _inactive(self, masks: Mapping[str, NDArray[np.uint8]], client: str) -> bool:
        mask = masks.get(client)
        if mask is None:
            return False
        asked, threshold = int(mask.sum(dtype=np.int64)), self.alpha * mask.size
        return asked <= threshold if self.ties_leave else asked < threshold


@dataclass(frozen=True)
class Restart(_ByUpdateSize):
    """When fewer than ``beta`` of all clients are active, all return with all tensors.

    Args:
        alpha: a client leaves if it is asked for less than this share of the tensors.
        beta: the share of clients.
        keep_own: whether clients keep their own copy of omitted tensors.
        train_away: whether inactive clients keep training.
        ties_off: whether a tensor whose update equals the mean is switched off too.
        ties_leave: whether a client that is asked for exactly ``alpha`` of the tensors leaves too.
        by_tensors: restart also when exactly ``beta`` of the clients are active, or when fewer than
            ``beta`` of the tensors were sent by anyone.
    """

    alpha: Share = 0.5
    beta: Share = 0.4
    keep_own: bool = False
    train_away: bool = False
    ties_off: bool = False
    ties_leave: bool = False
    by_tensors: bool = False

    def _returning(self, after: _AfterRound, draws: Randomness) -> Sequence[str]:  # noqa: ARG002
        active, clients = len(after.active), after.clients
        few = active == 0 or active < self.beta * len(clients)
        also = self.by_tensors and after.at_most(self.beta, active)
        return clients if few or also else []


@dataclass(frozen=True)
class Explore(_ByUpdateSize):
    """Random inactive clients return, until ``beta`` of all clients are active.

    A client that becomes inactive stays out of the next round, unless no other client is left.

    Args:
        alpha: a client leaves if it is asked for less than this share of the tensors.
        beta: the share of clients.
        keep_own: whether clients keep their own copy of omitted tensors.
        train_away: whether inactive clients keep training.
        ties_off: whether a tensor whose update equals the mean is switched off too.
        ties_leave: whether a client that is asked for exactly ``alpha`` of the tensors leaves too.
        one_more: take ``beta`` of one client more than there are, rounded down, instead of the
            number nearest to ``beta`` of all.
        restart: all return when still at most this share of the clients is active, or when fewer
            than this share of the tensors were sent by anyone; 0 for never.
    """

    alpha: Share = 0.5
    beta: Share = 0.667
    keep_own: bool = False
    train_away: bool = False
    ties_off: bool = False
    ties_leave: bool = False
    one_more: bool = False
    restart: Share = 0.0

    def _returning(self, after: _AfterRound, draws: Randomness) -> Sequence[str]:
        active, everyone = len(after.active), len(after.clients)
        places = int(self.beta * (everyone + 1)) if self.one_more else round(self.beta * everyone)
        candidates = after.away if after.active or after.away else after.gone
        order = torch.randperm(len(candidates), generator=draws.generator("return")).tolist()
        back = [candidates[index] for index in order[: max(0, max(1, places) - active)]]
        if self.restart and after.at_most(self.restart, active + len(back)):
            return after.clients
        return back


def _switched_off(
    before: Masks, switchable: Sequence[str], scores: ReplyScores, ties: bool = False
) -> Masks:
    """The masks after switching off tensors with a score below the mean, or with ``ties`` at it."""
    after = {client: mask.copy() for client, mask in before.items()}
    for index, name in enumerate(switchable):
        by_client = {client: own[name] for client, own in sorted(scores.items()) if name in own}
        if not by_client:
            continue
        # the mean of equal scores can differ from them by a rounding error
        lowest, highest = min(by_client.values()), max(by_client.values())
        threshold = min(max(fmean(by_client.values()), lowest), highest)
        for client, score in by_client.items():
            if score < threshold or (ties and score == threshold):
                after.setdefault(client, np.ones(len(switchable), np.uint8))[index] = 0
    return after


def fedda(activation: Restart = Restart()) -> Method:  # noqa: B008 (frozen)
    """FedAvg with clients and tensors activated by the size of their updates."""
    return replace(fedavg(), name="fedda", paper="FedGraph 2022", activation=activation)


_PROGRAM = "Fed_D_HGN.py"
_README = "README.md: the commands for Amazon"
AUTHORS = Authors(
    setting="amazon",
    deviations=(
        Deviation("negatives", "2hop-unlinked", "scripts/data_loader.py: get_test_neigh"),
        Deviation("split", "fedda", "data_Amazon/Amazon_0: link.dat and link.dat.test"),
        Deviation(
            "specialities",
            {"amazon": "fedda", OTHERS: "any"},
            "data_Amazon: clients 1 to 32, of which 10 have 30 % of both relations",
        ),
        Deviation("epochs", "50", f"{_README}, --c_epoch"),
        Deviation("stop_after", "40", f"{_README}, --patience and --valEachStep"),
        Deviation("batch_size", "1028", f"{_README}, --batch-size"),
        Deviation("fresh_moments", "true", f"{_PROGRAM}: client creates Adam in every round"),
        Deviation("ties_off", "true", f"{_PROGRAM}: a tensor is removed if its update <= the mean"),
        Deviation("ties_leave", "true", f"{_PROGRAM}: a client is removed if its tensors <= Tc"),
        Deviation("by_tensors", "true", f"{_PROGRAM}: tensors < Tr or clients <= Tr"),
        Deviation("one_more", "true", f"{_PROGRAM}: do_num is one more than the clients"),
        Deviation("restart", "0.4", f"{_PROGRAM}: Tr holds with --explore too; the paper's 0.4"),
    ),
    not_followed=(
        "The README asks for 50 rounds, but the paper's tables are those after 40.",
        "Tr is 0.3 by default in the program; the paper's 0.4 is used.",
        "Dropout stays on in the program's evaluation, and the number of an edge type is "
        "multiplied into its embedding: errors.",
        "The program averages ROC-AUC over batches of sorted pairs, a random fifth of them in "
        "every round; here it is that of all pairs.",
        "A client of the program validates on a tenth of its own links, sampled anew in every "
        "step; here on the common validation links.",
        "The program draws the negatives of training once per round, here once per epoch.",
        "Node features of Amazon are not available: every product has a learned vector.",
    ),
)
"""For FedDA, and for FedAvg and Local in its tables."""
