"""How the server turns replies into what it sends next.

A rule takes state in and gives state out. It sees replies one at a time, in whatever order they
arrive, and the order must not show in the result: engines differ in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ramet.payload import Array, Arrays, Payload

Reply: TypeAlias = tuple[str, Payload]
"""A client's name and what it sent; of its numbers ``weight`` is how much the client counts."""


@runtime_checkable
class Merging(Protocol):
    """State is a Payload, so that every rule's state can be checkpointed."""

    def start(self, shared: Arrays) -> Payload:
        """The state before round 1, from the arrays that all clients start with."""
        ...

    def ask(self, state: Payload, client: str) -> Arrays:
        """What this client is to lay over its own state."""
        ...

    def merge(self, state: Payload, replies: Iterable[Reply]) -> Payload:
        """The state after a round."""
        ...


@dataclass(frozen=True)
class WeightedMean:
    """Mean of each array over those who sent it, weighted by their training samples.

    An array that nobody sent keeps its value. Memory: one sum per array, however many clients.
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
            name: _of_type(old.dtype, sums[name].total() / weights[name]) if name in sums else old
            for name, old in state.arrays.items()
        }
        return Payload(arrays=merged)


def _of_type(dtype: np.dtype[Any], mean: NDArray[np.float64]) -> Array:
    """Whole numbers, such as a batch norm's count of batches, are rounded."""
    return (np.rint(mean) if np.issubdtype(dtype, np.integer) else mean).astype(dtype)


class OrderlessSum:
    """A sum that has the same bits in whatever order its terms come.

    Each term is cut into a multiple of 2^-16 and a rest rounded to 2^-56; both kinds add up
    without any rounding in float64, so no order can matter. Exact while the sum of the terms'
    sizes stays below 2^36 and there are at most 2^14 terms; beyond that it is an ordinary float64
    sum.
    """

    _COARSE = 1.5 * 2.0 ** (52 - 16)
    _FINE = 1.5 * 2.0 ** (52 - 56)

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._coarse: NDArray[np.float64] = np.zeros(shape)
        self._fine: NDArray[np.float64] = np.zeros(shape)

    def add(self, array: Array, weight: float) -> None:
        """One more term: the array times its weight."""
        term = array.astype(np.float64) * weight
        coarse = (term + self._COARSE) - self._COARSE
        self._coarse += coarse
        term -= coarse
        self._fine += (term + self._FINE) - self._FINE

    def total(self) -> NDArray[np.float64]:
        """The sum of what was added so far."""
        return self._coarse + self._fine
