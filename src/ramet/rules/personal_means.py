"""Merging rules that send each client a mean of its own over all replies."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray

from ramet.payload import Arrays, Payload, under
from ramet.rules.merging import Comparing, cast, weighted_mean
from ramet.rules.server import Server

_COMMON = "common/"


class PersonalMeans(Comparing):
    """Base class of rules that compare replies and weigh them anew for every client.

    The state has the weighted mean of all replies, for clients that have never replied, and one
    set of arrays per client.
    """

    @abstractmethod
    def weights(self, replies: Mapping[str, Payload]) -> NDArray[np.float64]:
        """[clients, clients] in the order of ``replies``; row i weighs the replies for client i."""

    def start(self, shared: Arrays) -> Payload:
        return Payload({_COMMON + name: array for name, array in shared.items()})

    def send(self, state: Payload, client: str) -> Arrays:
        return under(_own(client), state.arrays) or under(_COMMON, state.arrays)

    def compared(self, state: Payload, replies: Mapping[str, Payload], server: Server) -> Payload:  # noqa: ARG002
        arrays = dict(state.arrays)
        now = under(_COMMON, state.arrays)
        common = weighted_mean(now, replies.items())
        arrays |= {_COMMON + name: array for name, array in common.items()}
        stacked = {
            name: np.stack([reply.arrays[name].astype(np.float64) for reply in replies.values()])
            for name in now
        }
        for client, row in zip(replies, self.weights(replies), strict=True):
            for name, rows in stacked.items():
                mean = (rows * row.reshape(-1, *[1] * (rows.ndim - 1))).sum(axis=0)
                arrays[_own(client) + name] = cast(mean, now[name].dtype)
        return Payload(arrays)


def _own(client: str) -> str:
    return f"client/{client}/"


def cosines(rows: Iterable[NDArray[np.float32]]) -> NDArray[np.float64]:
    """[rows, rows] cosine of the angle between each two rows; 0 for a row of zeros."""
    stacked = np.stack([row.ravel().astype(np.float64) for row in rows])
    norms = np.sqrt(np.square(stacked).sum(axis=1))
    products: NDArray[np.float64] = (stacked[:, None] * stacked[None]).sum(axis=2)
    return products / np.maximum(np.outer(norms, norms), 1e-12)
