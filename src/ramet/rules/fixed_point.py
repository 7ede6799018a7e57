"""Sums in fixed point: sites send integers, whose sum is exact and can be computed under masks.

A site sends what its reply adds to the sums of the method's rules (`Summing.term`), each number
times 2^bits and rounded, modulo 2^ring. The server adds them up without rounding, so the sum does
not depend on the order, and is the same whether masks that cancel out were added or not.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated

import numpy as np
from pydantic import Field
from pydantic.dataclasses import dataclass

from ramet.errors import RametError
from ramet.payload import Array, Arrays, Payload
from ramet.rules.extras import Extras
from ramet.rules.merging import Merging, Summing

PARAMETERS, EXTRAS = "parameters/", "extras/"
NUMBERS, COUNTS = "numbers", "counts"
SUMMED_NUMBERS = ("weight", "loss", "val", "test")
"""The numbers of a reply that are added up, each with the number of sites that sent it."""
_FRACTION = {64: 24, 32: 10}
_HEADROOM = {64: 8, 32: 1}
"""Bits that no sum uses, so that a sum under masks that do not cancel out is noticed."""


@dataclass(frozen=True)
class FixedPoint:
    """The method's own sum, in integers modulo 2^``ring`` with ``bits`` bits after the point."""

    ring: Annotated[int, Field(ge=32, le=64, multiple_of=32)] = 64
    bits: Annotated[int, Field(ge=1, le=48)] | None = None

    @property
    def scale(self) -> float:
        return 2.0 ** (_FRACTION[self.ring] if self.bits is None else self.bits)

    @property
    def dtype(self) -> np.dtype[np.unsignedinteger]:
        return np.dtype(np.uint64 if self.ring == 64 else np.uint32)

    def limit(self, clients: int) -> float:
        """The largest absolute value of a term with which no sum over the clients overflows."""
        return 2.0 ** (self.ring - 1 - _HEADROOM[self.ring]) / self.scale / clients

    def encode(self, terms: Arrays, clients: int, clip: bool = False) -> dict[str, Array]:
        """The terms as integers; raise RametError if one is not finite or too large.

        With ``clip`` such values are replaced by 0 or the limit, so that nobody learns from an
        error what a site's terms are.
        """
        limit, encoded = self.limit(clients), {}
        for name, term in terms.items():
            values = np.asarray(term, np.float64)
            if clip:
                values = np.clip(np.nan_to_num(values, posinf=limit, neginf=-limit), -limit, limit)
            if not (np.abs(values) <= limit).all():  # also for NaN
                raise RametError(
                    f"'{name}' is not finite or exceeds {limit:.4g}, the largest value in a sum "
                    f"with {self.ring} bits over {clients} clients. If training has not diverged, "
                    "use --merge fixed-point with fewer `bits`, or ring=64."
                )
            integers = np.rint(values * self.scale).astype(np.int64)
            encoded[name] = integers.astype(self.dtype)
        return encoded

    def rounded_down(self, values: Array) -> Array:
        """Values as integers with sign, rounded towards zero, so that no norm becomes larger."""
        return np.asarray(np.trunc(values * self.scale).astype(np.int64))

    def decode(self, total: Arrays, clients: int) -> dict[str, Array]:
        """The sums as float64; raise RametError if one is larger than any sum of terms."""
        sums = {
            name: array.astype(np.float64) / self.scale
            for name, array in self.signed(total).items()
        }
        largest = clients * (self.limit(clients) + 1 / self.scale)
        for name, values in sums.items():
            if (np.abs(values) > largest).any():
                raise RametError(f"the sum of '{name}' is out of range, so it is not merged.")
        return sums

    def signed(self, encoded: Arrays) -> dict[str, Array]:
        """Encoded terms, or their sum, as signed integers."""
        signed = np.int64 if self.ring == 64 else np.int32
        return {name: array.view(signed) for name, array in encoded.items()}

    def form(self, terms: Arrays) -> dict[str, Array]:
        """Zeros with the names, shapes and types of encoded terms."""
        return {name: np.zeros(np.shape(term), self.dtype) for name, term in terms.items()}


def terms_of(merging: Merging, extras: Extras | None, reply: Payload) -> dict[str, Array]:
    """What a reply adds to all sums of a method: parameters, extras, and its numbers."""
    terms: dict[str, Array] = {}
    if reply.arrays and isinstance(merging, Summing):
        terms |= prefixed(PARAMETERS, merging.term(reply))
    if reply.extras and extras is not None and isinstance(extras.rule, Summing):
        terms |= prefixed(EXTRAS, extras.rule.term(reply))
    values = [float(reply.numbers.get(name, 0.0)) for name in SUMMED_NUMBERS]
    present = [float(name in reply.numbers) for name in SUMMED_NUMBERS]
    return {**terms, NUMBERS: np.array(values), COUNTS: np.array(present)}


def means_of(sums: Arrays) -> dict[str, float]:
    """The means of the numbers over the sites that sent them."""
    numbers, counts = sums[NUMBERS], sums[COUNTS]
    return {
        name: float(numbers[index] / counts[index])
        for index, name in enumerate(SUMMED_NUMBERS)
        if counts[index] > 0
    }


class RingTotal:
    """The sum of encoded terms, modulo 2^ring."""

    def __init__(self, start: Arrays | None = None) -> None:
        self.arrays: dict[str, Array] = dict(start or {})

    def add(self, terms: Mapping[str, Array]) -> None:
        for name, term in terms.items():
            added = self.arrays[name] + term if name in self.arrays else term.copy()
            self.arrays[name] = np.asarray(added)


def prefixed(prefix: str, arrays: Arrays) -> dict[str, Array]:
    return {prefix + name: np.asarray(array) for name, array in arrays.items()}
