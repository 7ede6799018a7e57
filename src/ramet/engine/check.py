"""Checks of every reply before it is merged; an invalid one is reported and left out."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TypeAlias

import numpy as np

from ramet.payload import Array, Arrays, Payload
from ramet.policy import kind_of_number
from ramet.tasks import SHARES

MAX_VALUE = 1e9
MAX_WEIGHT = 1e12
_MAX_COUNT = 1e18
SCORES = ("val", "test")
_COUNTED = ("up", "tensors", "scalars")
"""Numbers that the server counts itself, whatever a client says."""
_ROUNDING = 1e-6
"""By how much a score may leave its range; sums in fixed point are rounded."""
Range: TypeAlias = tuple[float, float]
ANYWHERE: Range = (-math.inf, math.inf)


def due_numbers(train: bool, evaluate: bool) -> tuple[str, ...]:
    """Names of the numbers that clients report; scores if there is something to evaluate."""
    return (*(("loss",) if train else ()), *(SCORES if evaluate else ()))


def fault(
    reply: Payload,
    expected: Payload,
    train: bool,
    numbers: Sequence[str] = (),
    scores: Range = ANYWHERE,
) -> str | None:
    """What is wrong with a reply, in a few words; None if it is valid.

    Args:
        reply: a client's reply.
        expected: arrays and extras with the names, shapes and types that it should have.
        train: whether the client takes part in a round; otherwise it sends no arrays.
        numbers: names of the numbers that it should have besides its weight.
        scores: the range of validation and test scores.
    """
    wanted = expected if train else Payload()
    return (
        arrays_fault(reply.arrays, wanted.arrays)
        or arrays_fault(reply.extras, wanted.extras)
        or numbers_fault(reply.numbers, train, numbers, scores)
    )


def summand_fault(
    reply: Payload, expected: Arrays, train: bool, numbers: Sequence[str], scores: Range
) -> str | None:
    """What is wrong with the terms of a reply; their values are known to the site only."""
    names = _names_fault(reply.arrays, expected) or _names_fault(reply.extras, {})
    if names:
        return names
    other = [n for n, like in expected.items() if not same_form(reply.arrays[n], like)]
    if other:
        return _form_fault(other[0], reply.arrays[other[0]], expected[other[0]])
    return numbers_fault(reply.numbers, train, numbers, scores)


def arrays_fault(arrays: Arrays, wanted: Arrays) -> str | None:
    """What is wrong with the names, shapes, types or values of arrays."""
    return _names_fault(arrays, wanted) or next(
        (f for name, like in wanted.items() if (f := _array_fault(name, arrays[name], like))), None
    )


def same_form(array: Array, other: Array) -> bool:
    return (array.shape, array.dtype) == (other.shape, other.dtype)


def numbers_fault(
    numbers: Mapping[str, float], train: bool, due: Sequence[str], scores: Range
) -> str | None:
    """What is wrong with the numbers of a reply, some of which are due."""
    bad = [name for name, number in numbers.items() if not math.isfinite(number)]
    if bad:
        return f"{', '.join(sorted(bad))} is not finite"
    if train and not 0 < numbers.get("weight", 0) <= MAX_WEIGHT:
        return f"weight {numbers.get('weight')} is not a number of samples"
    missing = [name for name in due if name not in numbers]
    return f"lacks the numbers {', '.join(missing)}" if missing else range_fault(numbers, scores)


def range_fault(numbers: Mapping[str, float], scores: Range) -> str | None:
    """Which number cannot be right; ``scores`` is the range of validation and test scores."""
    for name, number in numbers.items():
        low, high = _range_of(name, scores)
        if not low - _ROUNDING <= number <= high + _ROUNDING:
            return f"{name} {number:g} is not from {low:g} to {high:g}"
    return None


def _range_of(name: str, scores: Range) -> Range:
    kind = kind_of_number(name)
    if kind == "weight":
        return 0.0, MAX_WEIGHT
    if name in _COUNTED:
        return ANYWHERE
    if kind == "work":
        return 0.0, _MAX_COUNT
    if name in SHARES:
        return 0.0, 1.0
    low, high = scores if name in SCORES else ANYWHERE
    return max(low, -MAX_VALUE), min(high, MAX_VALUE)


def form_fault(reply: Payload, form: Payload) -> str | None:
    """What a reply has beyond a form, in a few words; None if there is nothing."""
    for arrays, declared in ((reply.arrays, form.arrays), (reply.extras, form.extras)):
        for name, array in arrays.items():
            if name not in declared or not same_form(array, declared[name]):
                return f"'{name}' as {array.dtype}{list(array.shape)}"
    for given, known in ((reply.numbers, form.numbers), (reply.notes, form.notes)):
        surplus = [name for name in given if name not in known]
        if surplus:
            return f"'{surplus[0]}'"
    return None


def distance_fault(reply: Arrays, sent: Arrays, bound: float | None) -> str | None:
    """The fault of a reply whose L2 distance from what was sent is too large.

    The distance is over all arrays that were sent and returned.
    """
    if bound is None:
        return None
    squares = (_squared_distance(reply[name], sent[name]) for name in reply if name in sent)
    moved = math.sqrt(math.fsum(squares))
    return f"moved by {moved:.3g}, but the bound is {bound:g}" if moved > bound else None


def _squared_distance(array: Array, sent: Array) -> float:
    return float(np.square(array.astype(np.float64) - sent).sum())


def _names_fault(arrays: Arrays, wanted: Arrays) -> str | None:
    missing, extra = sorted(wanted.keys() - arrays.keys()), sorted(arrays.keys() - wanted.keys())
    if missing:
        return f"lacks {', '.join(missing)}"
    return f"has arrays that were not requested: {', '.join(extra)}" if extra else None


def _array_fault(name: str, array: Array, like: Array) -> str | None:
    if not same_form(array, like):
        return _form_fault(name, array, like)
    if not np.isfinite(array).all():
        return f"{name} is not finite"
    in_range = not array.size or max(float(array.max()), -float(array.min())) <= MAX_VALUE
    return None if in_range else f"{name} is out of range"


def _form_fault(name: str, array: Array, like: Array) -> str:
    return f"{name} is {array.dtype}{list(array.shape)} instead of {like.dtype}{list(like.shape)}"
