r"""Merging rules that limit the influence of a malicious minority.

They replace the weighted mean (`--merge`). None of them weights replies by the number of samples,
because a client could report any number.

==========================  ===================================================================
rule                        from
==========================  ===================================================================
:class:`Median`             Yin et al., *Byzantine-Robust Distributed Learning*, ICML 2018
:class:`TrimmedMean`        the same paper
:class:`Krum`               Blanchard et al., *Machine Learning with Adversaries*, NeurIPS 2017
:class:`ClippedMean`        Sun et al., *Can You Really Backdoor Federated Learning?*, 2019
==========================  ===================================================================
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping
from math import ceil
from typing import Annotated

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, PositiveFloat
from pydantic.dataclasses import dataclass

from ramet.payload import Array, Arrays, Payload
from ramet.rules.merging import Comparing
from ramet.rules.server import Server

Rows = NDArray[np.float64]
Minority = Annotated[float, Field(ge=0, lt=0.5)]


class RobustMerging(Comparing):
    """Base class that turns the replies of a round into a matrix, with a row per reply."""

    @abstractmethod
    def merged(self, rows: Rows, sent: Rows) -> Rows:
        """Merge replies [clients, values], given the values that all clients were sent."""

    def min_clients(self, clients: int) -> int:  # noqa: ARG002
        """The minimum number of clients with which the rule gives protection."""
        return 3

    def compared(self, state: Payload, replies: Mapping[str, Payload], server: Server) -> Payload:  # noqa: ARG002
        rows = np.stack([_flatten(reply.arrays, state.arrays) for reply in replies.values()])
        merged = self.merged(rows, _flatten(state.arrays, state.arrays))
        return Payload(_unflatten(merged, state.arrays))


@dataclass(frozen=True)
class Median(RobustMerging):
    """The coordinate-wise median of the replies."""

    def merged(self, rows: Rows, sent: Rows) -> Rows:  # noqa: ARG002
        median: Rows = np.median(rows, axis=0)
        return median


@dataclass(frozen=True)
class TrimmedMean(RobustMerging):
    """The coordinate-wise mean, without the ``share`` largest and the ``share`` smallest."""

    share: Minority = 0.2

    def merged(self, rows: Rows, sent: Rows) -> Rows:  # noqa: ARG002
        trim = min(_count(self.share, len(rows)), (len(rows) - 1) // 2)
        mean: Rows = np.sort(rows, axis=0)[trim : len(rows) - trim].mean(axis=0)
        return mean


@dataclass(frozen=True)
class Krum(RobustMerging):
    """Multi-Krum: the mean of the replies without the ``share`` farthest from the others.

    The score of a reply is the sum of its squared distances to its n - f - 2 nearest others, where
    f is the share in clients. The n - f replies with the smallest scores are averaged.
    """

    share: Minority = 0.2

    def min_clients(self, clients: int) -> int:
        return 2 * _count(self.share, clients) + 3

    def merged(self, rows: Rows, sent: Rows) -> Rows:  # noqa: ARG002
        from scipy.spatial.distance import pdist, squareform  # takes half a second to import

        left_out = _count(self.share, len(rows))
        distances = squareform(pdist(rows, "sqeuclidean"))
        nearest = np.sort(distances, axis=1)[:, 1 : 1 + max(1, len(rows) - left_out - 2)]
        kept = np.argsort(nearest.sum(axis=1), kind="stable")[: max(1, len(rows) - left_out)]
        mean: Rows = rows[np.sort(kept)].mean(axis=0)
        return mean


@dataclass(frozen=True)
class ClippedMean(RobustMerging):
    """The mean of the updates, each clipped to norm ``bound``, by default to the median norm."""

    bound: PositiveFloat | None = None

    def merged(self, rows: Rows, sent: Rows) -> Rows:
        updates = rows - sent
        norms = np.linalg.norm(updates, axis=1)
        bound = np.median(norms) if self.bound is None else self.bound
        clipped = updates * np.minimum(1, bound / np.maximum(norms, 1e-12))[:, None]
        mean: Rows = sent + clipped.mean(axis=0)
        return mean


def _count(share: float, clients: int) -> int:
    """The share in clients, rounded up; the tolerance absorbs float error."""
    return ceil(share * clients - 1e-9)


def _flatten(arrays: Arrays, like: Arrays) -> Rows:
    parts: list[Array] = [arrays[name].ravel() for name in sorted(like)]
    return np.concatenate(parts).astype(np.float64)


def _unflatten(row: Rows, like: Arrays) -> dict[str, Array]:
    """Split a row into arrays with the shapes, types and order of ``like``."""
    arrays, start = {}, 0
    for name in sorted(like):
        array = like[name]
        arrays[name] = row[start : start + array.size].reshape(array.shape).astype(array.dtype)
        start += array.size
    return {name: arrays[name] for name in like}
