"""Merging rules: how the server turns replies into what it sends next.

A rule object holds no state: ``merge`` receives the state and returns the next one. It sees replies
one at a time, in order of arrival. The result must not depend on that order, because it differs
between engines. For the same reason ``merge`` must read all replies.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ramet.payload import Array, Arrays, Payload

Reply: TypeAlias = tuple[str, Payload]
"""A client's name and its message; the number ``weight`` is the client's weight in means."""
NEW_CLIENT = "/a new client"
"""Stands for a client that has never replied. Clients' names are names of folders, without "/"."""


@runtime_checkable
class Merging(Protocol):
    """Protocol of merging rules. The state is a Payload, so that it can be checkpointed."""

    def start(self, shared: Arrays) -> Payload:
        """Return the state before round 1, given the arrays that all clients start with."""
        ...

    def ask(self, state: Payload, client: str) -> Arrays:
        """Return the arrays to send to this client. They overwrite its own.

        The client may be one that has never replied, because it joins late or its replies were
        missing. Return what such a client should start from, usually the merge of all others. The
        server calls ``ask`` with ``NEW_CLIENT`` right after ``start``, and when it evaluates or
        returns the merged model itself.

        The names are those of the arrays given to ``start``. Arrays that the method's ``down``
        leaves out are not sent.
        """
        ...

    def merge(self, state: Payload, replies: Iterable[Reply]) -> Payload:
        """Return the state after a round. All replies must be read."""
        ...


@dataclass(frozen=True)
class WeightedMean:
    """Weighted mean of each array over the clients that sent it.

    The task sets the weights, such as the number of training graphs. An array that no client sent
    keeps its value. Memory is one sum per array, for any number of clients.
    """

    def start(self, shared: Arrays) -> Payload:
        return Payload(arrays=dict(shared))

    def ask(self, state: Payload, client: str) -> Arrays:  # noqa: ARG002
        return state.arrays

    def merge(self, state: Payload, replies: Iterable[Reply]) -> Payload:
        sums: dict[str, OrderlessSum] = {}
        weights: dict[str, float] = {}
        for _, reply in replies:
            weight = reply.numbers["weight"]
            for name, array in reply.arrays.items():
                if name not in sums:
                    sums[name], weights[name] = OrderlessSum(array.shape), 0.0
                sums[name].add(array, weight)
                weights[name] += weight
        merged = {
            name: _cast(sums[name].total() / weights[name], old.dtype) if name in sums else old
            for name, old in state.arrays.items()
        }
        return Payload(arrays=merged)


def _cast(mean: NDArray[np.float64], dtype: np.dtype[Any]) -> Array:
    """Round where the type is integer, as for the batch count of a batch norm."""
    return (np.rint(mean) if np.issubdtype(dtype, np.integer) else mean).astype(dtype)


class OrderlessSum:
    """A sum that has the same bits for any order of its terms.

    Each term is split into a multiple of 2^-16 and a remainder rounded to 2^-56. Both parts add up
    in float64 without rounding, so the order cannot matter. This holds while the sum of absolute
    values is below 2^36 and there are at most 2^14 terms. Beyond that it is an ordinary float64
    sum.
    """

    _COARSE = 1.5 * 2.0 ** (52 - 16)
    _FINE = 1.5 * 2.0 ** (52 - 56)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._coarse: NDArray[np.float64] = np.zeros(shape)
        self._fine: NDArray[np.float64] = np.zeros(shape)

    def add(self, array: Array, weight: float) -> None:
        """Add the array times its weight."""
        term = array.astype(np.float64) * weight
        coarse = (term + self._COARSE) - self._COARSE
        self._coarse += coarse
        term -= coarse
        self._fine += (term + self._FINE) - self._FINE

    def total(self) -> NDArray[np.float64]:
        """Return the sum so far."""
        return self._coarse + self._fine
