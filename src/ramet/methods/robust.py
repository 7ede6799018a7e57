r"""Merging rules that a malicious minority cannot steer.

They take the place of the weighted mean (`--merge`). A client's number of samples is its own claim,
so none of them weighs by it. All need the replies of a round at once, so the server's memory grows
with the number of clients asked.

==========================  ===================================================================
rule                        from
==========================  ===================================================================
:class:`Median`             Yin et al., *Byzantine-Robust Distributed Learning*, ICML 2018
:class:`TrimmedMean`        the same
:class:`Krum`               Blanchard et al., *Machine Learning with Adversaries*, NeurIPS 2017
:class:`ClippedMean`        Sun et al., *Can You Really Backdoor Federated Learning?*, 2019
==========================  ===================================================================
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from math import ceil
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat
from pydantic.dataclasses import dataclass

from ramet.methods.merging import Reply
from ramet.payload import Array, Arrays, Payload

Rows = NDArray[np.float64]
Minority = Annotated[float, Field(ge=0, lt=0.5)]


class RobustMerging(ABC):
    """Sees each round as rows, one per client that replied, all shared numbers side by side."""

    @abstractmethod
    def merged(self, rows: Rows, sent: Rows) -> Rows:
        """From [clients, numbers] and what all were sent, [numbers], to what is sent next."""

    def fewest(self, clients: int) -> int:  # noqa: ARG002
        """How many clients there must be for the rule to protect them."""
        return 3

    def start(self, shared: Arrays) -> Payload:
        return Payload(dict(shared))

    def ask(self, state: Payload, client: str) -> Arrays:  # noqa: ARG002
        return state.arrays

    def merge(self, state: Payload, replies: Iterable[Reply]) -> Payload:
        came = dict(replies)
        if not came:
            return state
        rows = np.stack([_row(came[client].arrays, state.arrays) for client in sorted(came)])
        merged = self.merged(rows, _row(state.arrays, state.arrays))
        return Payload(_cut(merged, state.arrays))


@dataclass(frozen=True)
class Median(RobustMerging):
    """The median of the clients' values, number by number."""

    def merged(self, rows: Rows, sent: Rows) -> Rows:  # noqa: ARG002
        middle: Rows = np.median(rows, axis=0)
        return middle


@dataclass(frozen=True)
class TrimmedMean(RobustMerging):
    """The mean, number by number, without the ``share`` largest and the ``share`` smallest."""

    share: Minority = 0.2

    def merged(self, rows: Rows, sent: Rows) -> Rows:  # noqa: ARG002
        cut = min(_count(self.share, len(rows)), (len(rows) - 1) // 2)
        mean: Rows = np.sort(rows, axis=0)[cut : len(rows) - cut].mean(axis=0)
        return mean


@dataclass(frozen=True)
class Krum(RobustMerging):
    """Multi-Krum: the mean of the replies nearest to the others, without a ``share`` of them.

    A reply's score is the sum of its squared distances to its nearest n - f - 2 others, f being
    the share; the n - f replies with the smallest scores are kept.
    """

    share: Minority = 0.2

    def fewest(self, clients: int) -> int:
        return 2 * _count(self.share, clients) + 3

    def merged(self, rows: Rows, sent: Rows) -> Rows:  # noqa: ARG002
        from scipy.spatial.distance import pdist, squareform  # takes half a second to import

        left_out = _count(self.share, len(rows))
        apart = squareform(pdist(rows, "sqeuclidean"))
        near = np.sort(apart, axis=1)[:, 1 : 1 + max(1, len(rows) - left_out - 2)]
        kept = np.argsort(near.sum(axis=1), kind="stable")[: max(1, len(rows) - left_out)]
        mean: Rows = rows[np.sort(kept)].mean(axis=0)
        return mean


@dataclass(frozen=True)
class ClippedMean(RobustMerging):
    """The mean of the clients' updates, each shortened to ``bound``, or to the median length."""

    bound: PositiveFloat | None = None

    def merged(self, rows: Rows, sent: Rows) -> Rows:
        updates = rows - sent
        lengths = np.linalg.norm(updates, axis=1)
        longest = np.median(lengths) if self.bound is None else self.bound
        shortened = updates * np.minimum(1, longest / np.maximum(lengths, 1e-12))[:, None]
        mean: Rows = sent + shortened.mean(axis=0)
        return mean


def _count(share: float, clients: int) -> int:
    """At least the share; 0.2 of 10 is 2 though floats are not exact."""
    return ceil(share * clients - 1e-9)


def _row(arrays: Arrays, like: Arrays) -> Rows:
    parts: list[Array] = [arrays[name].ravel() for name in sorted(like)]
    return np.concatenate(parts).astype(np.float64)


def _cut(row: Rows, like: Arrays) -> dict[str, Array]:
    """The row as arrays of the shapes and types they had, in the order they had."""
    cut, place = {}, 0
    for name in sorted(like):
        array = like[name]
        cut[name] = row[place : place + array.size].reshape(array.shape).astype(array.dtype)
        place += array.size
    return {name: cut[name] for name in like}
