"""Merging rules: how the server turns replies into what it sends next.

A rule object holds no state: ``merge`` receives the state and returns the next one. It sees replies
one at a time, in order of arrival. The result must not depend on that order, because it differs
between engines. For the same reason ``merge`` must read all replies.

There are two kinds. A ``Summing`` rule needs nothing but a sum over replies: it says what a reply
adds to the sum, and what follows from the sum. All other rules see each reply and may compare them.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, Protocol, TypeGuard, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from pydantic.dataclasses import dataclass

from ramet.errors import RametError
from ramet.payload import Array, Arrays, Payload, under
from ramet.rules.server import Server

NEW_CLIENT = "/a new client"
"""Stands for a client that has never replied. Clients' names are names of folders, without "/"."""
_WEIGHT = "weight/"
_COARSE, _FINE = "coarse/", "fine/"


class Reply(NamedTuple):
    """What a client sends: in its message, the number ``weight`` is its weight in means."""

    client: str
    message: Payload


@runtime_checkable
class Merging(Protocol):
    """Protocol of merging rules. The state is a Payload, so that it can be checkpointed."""

    def start(self, shared: Arrays) -> Payload:
        """Return the state before round 1, given the arrays that all clients start with."""
        ...

    def send(self, state: Payload, client: str) -> Arrays:
        """Return the arrays to send to this client. They overwrite its own.

        The client may be one that has never replied, because it joins late or its replies were
        missing. Return what such a client should start from, usually the merge of all others. The
        server calls ``send`` with ``NEW_CLIENT`` right after ``start``, and when it evaluates or
        returns the merged model itself.

        The names are those of the arrays given to ``start``. Arrays that the method's ``down``
        leaves out are not sent.
        """
        ...

    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        """Return the state after a round. All replies must be read."""
        ...


class _SameForAll:
    """The state has the arrays that all clients are sent."""

    def start(self, shared: Arrays) -> Payload:
        return Payload(dict(shared))

    def send(self, state: Payload, client: str) -> Arrays:  # noqa: ARG002
        return state.arrays


class Comparing(_SameForAll, ABC):
    """Base class of rules that compare the replies of a round.

    All of them are held at once, so the server's memory grows with the number of active clients.
    """

    @abstractmethod
    def compared(self, state: Payload, replies: Mapping[str, Payload], server: Server) -> Payload:
        """Return the state after a round with these replies, at least one, in order of clients."""

    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        received = dict(sorted(replies))
        return self.compared(state, received, server) if received else state


class Summing(_SameForAll, ABC):
    """Base class of rules that need only a sum over replies.

    The server's memory does not grow with the number of clients. ``term`` uses nothing but the
    reply, so it can be computed before the reply leaves the site.
    """

    @abstractmethod
    def term(self, reply: Payload) -> Arrays:
        """Return what a reply adds to the sum. Replies may have terms of different names."""

    @abstractmethod
    def step(self, state: Payload, total: Arrays, server: Server) -> Payload:
        """Return the state after a round, given the sum over at least one reply, in float64."""

    def merge(self, state: Payload, replies: Iterable[Reply], server: Server) -> Payload:
        total = Total()
        for _, reply in replies:
            total.add(self.term(reply))
        summed = total.arrays()
        return self.step(state, summed, server) if summed else state


@dataclass(frozen=True)
class WeightedMean(Summing):
    """Weighted mean of each array over the clients that sent it.

    The task sets the weights, such as the number of training graphs. An array that no client sent
    keeps its value.
    """

    def term(self, reply: Payload) -> Arrays:
        weight = np.float64(reply.numbers["weight"])
        arrays = {
            name: np.multiply(array, weight, dtype=np.float64)
            for name, array in reply.arrays.items()
        }
        return arrays | {_WEIGHT + name: np.asarray(weight) for name in reply.arrays}

    def step(self, state: Payload, total: Arrays, server: Server) -> Payload:  # noqa: ARG002
        return Payload(self.mean(state.arrays, total))

    @staticmethod
    def mean(now: Arrays, total: Arrays) -> dict[str, Array]:
        """The means, in the types of ``now``, which has the values of arrays that nobody sent."""
        weights = under(_WEIGHT, total)
        return {
            name: cast(total[name] / weights[name], old.dtype) if name in weights else old
            for name, old in now.items()
        }


def weighted_mean(now: Arrays, replies: Iterable[tuple[str, Payload]]) -> dict[str, Array]:
    """The weighted mean of each array; ``now`` has the values of arrays that nobody sent."""
    total = Total()
    for _, reply in replies:
        total.add(WeightedMean().term(reply))
    return WeightedMean.mean(now, total.arrays())


def cast(mean: NDArray[np.float64], dtype: np.dtype[Any]) -> Array:
    """Round where the type is integer, as for the batch count of a batch norm."""
    return (np.rint(mean) if np.issubdtype(dtype, np.integer) else mean).astype(dtype)


class Total:
    """The sum of named arrays, with the same bits for any order of its terms."""

    def __init__(self) -> None:
        self._sums: dict[str, OrderlessSum] = {}

    def add(self, term: Arrays) -> None:
        if not isinstance(term, Mapping):
            raise RametError(
                f"`term` of a merging rule returned {type(term).__name__}, not a dict of arrays."
            )
        for name, array in term.items():
            if name not in self._sums:
                self._sums[name] = OrderlessSum(array.shape)
            self._sums[name].add(array)

    def arrays(self) -> dict[str, NDArray[np.float64]]:
        return {name: sums.total() for name, sums in self._sums.items()}

    def parts(self) -> dict[str, NDArray[np.float64]]:
        """The sum before it is rounded, as arrays that another total can add."""
        coarse = {_COARSE + name: sums.coarse for name, sums in self._sums.items()}
        return coarse | {_FINE + name: sums.fine for name, sums in self._sums.items()}

    def integers(self) -> dict[str, Array]:
        """The parts as integers, which add up exactly like the terms; an error if they are none."""
        found: dict[str, Array] = {}
        for name, sums in self._sums.items():
            found[_COARSE + name] = _whole(name, sums.coarse * OrderlessSum.COARSE_UNITS)
            found[_FINE + name] = _whole(name, sums.fine * OrderlessSum.FINE_UNITS)
        return found

    def add_parts(self, parts: Arrays) -> None:
        """Add the parts of another total, as if its terms were added here."""
        coarse, fine = under(_COARSE, parts), under(_FINE, parts)
        for name, array in coarse.items():
            if name not in self._sums:
                self._sums[name] = OrderlessSum(array.shape)
            if self._sums[name].coarse.shape != array.shape:
                raise RametError(f"'{name}' has another shape in another sum, so they do not add.")
            self._sums[name].add_parts(array, fine[name])

    @staticmethod
    def are_parts(arrays: Arrays) -> bool:
        """Whether arrays have the names and shapes of the parts of a total."""
        coarse, fine = under(_COARSE, arrays), under(_FINE, arrays)
        shapes = ({name: array.shape for name, array in part.items()} for part in (coarse, fine))
        return next(shapes) == next(shapes) and len(coarse) + len(fine) == len(arrays)


def _whole(name: str, values: Array) -> Array:
    if not (np.abs(values) < 2.0**53).all() or not (values == np.rint(values)).all():
        raise RametError(f"the sum of '{name}' is not exact, so that nobody can check it.")
    return values.astype(np.int64)


class OrderlessSum:
    """A sum that has the same bits for any order of its terms.

    Each term is split into a multiple of 2^-16 and a remainder rounded to 2^-56. Both parts add up
    in float64 without rounding, so the order cannot matter. This holds while the sum of absolute
    values is below 2^36 and there are at most 2^14 terms. Beyond that it is an ordinary float64
    sum.
    """

    COARSE_UNITS, FINE_UNITS = 2.0**16, 2.0**56
    """Both parts are whole numbers of these units."""
    _COARSE, _FINE = 1.5 * 2.0**52 / COARSE_UNITS, 1.5 * 2.0**52 / FINE_UNITS

    def __init__(self, shape: tuple[int, ...]) -> None:
        self.coarse: NDArray[np.float64] = np.zeros(shape)
        self.fine: NDArray[np.float64] = np.zeros(shape)

    def add(self, array: Array) -> None:
        part = np.empty(self.coarse.shape)
        np.add(array, self._COARSE, out=part, dtype=np.float64)
        part -= self._COARSE
        self.coarse += part
        np.subtract(array, part, out=part)
        part += self._FINE
        part -= self._FINE
        self.fine += part

    def add_parts(self, coarse: Array, fine: Array) -> None:
        """Add another sum, given by its two parts."""
        self.coarse += coarse
        self.fine += fine

    def total(self) -> NDArray[np.float64]:
        """Return the sum so far."""
        return self.coarse + self.fine


def sums_only(rule: Merging) -> TypeGuard[Summing]:
    """Whether the rule uses nothing of replies but the sum of their terms."""
    return isinstance(rule, Summing) and type(rule).merge is Summing.merge
