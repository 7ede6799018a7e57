"""Folds: how the replies of an exchange become what the server's rules need of them.

A fold takes replies one at a time. One that only adds up can also be passed on in parts: a regional
coordinator sends the parts of its own fold, which are added as if its replies had been.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from ramet.errors import RametError
from ramet.payload import Array, Arrays, Payload, under
from ramet.rules.extras import TRAINING
from ramet.rules.fixed_point import EXTRAS, PARAMETERS, FixedPoint, RingTotal, prefixed
from ramet.rules.merging import Merging, Reply, Summing, Total, sums_only
from ramet.rules.method import AssembledMethod, declared_extras


@dataclass(frozen=True)
class Folded:
    """What is left of the replies of an exchange."""

    sums: Arrays = field(default_factory=dict)
    """Sums of the rules' terms, in float64, by the kind of the terms."""
    replies: Sequence[Reply] | None = None
    """All replies, if a rule compares them."""

    def sums_of(self, kind: str) -> dict[str, Array]:
        return under(kind, self.sums)


class Fold(Protocol):
    """Protocol of folds."""

    def add(self, client: str, reply: Payload) -> None: ...

    def parts(self) -> Arrays:
        """What another fold of the same kind needs to add these replies."""
        ...

    def add_parts(self, parts: Arrays) -> None: ...

    def parts_fault(self, parts: Arrays) -> str | None:
        """What is wrong with the parts that another process has sent."""
        ...

    def integers(self) -> Arrays:
        """The parts as integers, which add up exactly, for checks of a sum."""
        ...

    def result(self) -> Folded: ...


class Sums:
    """Sums of terms in float64, with the same bits for any order of the replies."""

    def __init__(self, rules: Mapping[str, Summing]) -> None:
        """``rules`` are given by the kind of their terms."""
        self._rules, self._total = rules, Total()

    def add(self, client: str, reply: Payload) -> None:  # noqa: ARG002
        for kind, rule in self._rules.items():
            self._total.add(prefixed(kind, rule.term(reply)))

    def parts(self) -> Arrays:
        return self._total.parts()

    def add_parts(self, parts: Arrays) -> None:
        self._total.add_parts(parts)

    def parts_fault(self, parts: Arrays) -> str | None:
        reason = _values_fault(parts, np.dtype(np.float64))
        return reason or (None if Total.are_parts(parts) else "has only a part of a sum")

    def integers(self) -> Arrays:
        return self._total.integers()

    def result(self) -> Folded:
        return Folded(self._total.arrays())


class RingSums:
    """Sums of terms that the sites have encoded as integers."""

    def __init__(self, summation: FixedPoint, clients: int) -> None:
        self._summation, self._clients, self._total = summation, clients, RingTotal()

    def add(self, client: str, reply: Payload) -> None:  # noqa: ARG002
        self._total.add(reply.arrays)

    def parts(self) -> Arrays:
        return self._total.arrays

    def add_parts(self, parts: Arrays) -> None:
        self._total.add(parts)

    def parts_fault(self, parts: Arrays) -> str | None:
        return _values_fault(parts, self._summation.dtype)

    def integers(self) -> Arrays:
        return self._summation.signed(self._total.arrays)

    def result(self) -> Folded:
        return Folded(self._summation.decode(self._total.arrays, self._clients))


class KeptReplies:
    """All replies in the order of arrival, for rules that compare them, beside a sum for others."""

    def __init__(self, beside: Fold) -> None:
        self._beside = beside
        self.replies: list[Reply] = []

    def add(self, client: str, reply: Payload) -> None:
        self._beside.add(client, reply)
        self.replies.append(Reply(client, reply))

    def parts(self) -> Arrays:
        raise RametError("single replies are compared, so they cannot be passed on as a sum.")

    def add_parts(self, parts: Arrays) -> None:  # noqa: ARG002
        self.parts()

    def parts_fault(self, parts: Arrays) -> str | None:  # noqa: ARG002
        return "has a sum of replies that are compared"

    def integers(self) -> Arrays:
        return self.parts()

    def result(self) -> Folded:
        return Folded(self._beside.result().sums, self.replies)


def fold_of(method: AssembledMethod, exchange: str | None, clients: int) -> Fold:
    """A new fold for an exchange, which is a stage, training, or None if nothing is merged."""
    if method.summation is not None:
        return RingSums(method.summation, clients)
    rules = rules_of(method, exchange)
    sums = Sums({kind: rule for kind, rule in rules.items() if sums_only(rule)})
    return sums if all(map(sums_only, rules.values())) else KeptReplies(sums)


def rules_of(method: AssembledMethod, exchange: str | None) -> dict[str, Merging]:
    """The rules that merge what clients send in an exchange, by the kind of what they merge."""
    rules: dict[str, Merging] = {PARAMETERS: method.merging} if exchange == TRAINING else {}
    declared = declared_extras(method).get(exchange or "")
    return rules | ({EXTRAS: declared.rule} if declared and declared.rule else {})


def _values_fault(parts: Arrays, dtype: np.dtype[np.generic]) -> str | None:
    for name, array in parts.items():
        if array.dtype != dtype:
            return f"has {name} as {array.dtype} instead of {dtype}"
        if not np.isfinite(array).all():
            return f"has {name}, which is not finite"
    return None
