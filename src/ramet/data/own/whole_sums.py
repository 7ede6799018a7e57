"""Sums of columns as whole numbers, so that masks can hide what each site adds.

A float64 is a multiple of 2^-1074, so a sum of them is one too, and exact: it is rounded once, when
it is turned back into a float, as by `math.fsum`. The integers are cut into limbs of 32 bits, which
add up without carries.

There are two sums: of counts and totals, and, when sites know the mean of all, of squared
deviations from it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from ramet.data.own.moments import Moments
from ramet.data.own.preparation import ColumnSums, Pooled, SiteSums
from ramet.errors import RametError

RARE = "rare classes"
_BITS, _LIMBS, _SMALLEST = 32, 66, 1074
"""Limbs for all of float64, from 2^-1074 to 2^1024, with a sign and headroom in each limb."""
Wholes = dict[str, NDArray[np.uint64]]


def whole(values: Iterable[float]) -> NDArray[np.uint64]:
    """The exact sum of a few floats as limbs."""
    total = sum((Fraction(value) for value in values), Fraction())
    number, sign = abs(int(total * 2**_SMALLEST)), 1 if total >= 0 else -1
    limbs = [(number >> (_BITS * place)) % 2**_BITS for place in range(_LIMBS)]
    return (sign * np.array(limbs, np.int64)).view(np.uint64)


def rounded(limbs: NDArray[np.uint64]) -> float:
    """The float that is nearest to a sum of limbs."""
    signed = limbs.view(np.int64).tolist()
    number = sum(limb << (_BITS * place) for place, limb in enumerate(signed))
    return float(Fraction(number, 2**_SMALLEST))


def totals(sums: SiteSums, columns: Iterable[str]) -> Wholes:
    """What a site adds to the first sum: counts and totals, and whether a class is rare."""
    added = {RARE: np.array([sums.rare_classes], np.uint64)}
    for column in columns:
        own = sums.numbers.get(column)
        count, total = (own.count, own.total) if own else (0, 0.0)
        added[column] = np.append(np.array([count], np.uint64), whole([total]))
    return added


def spreads(sums: SiteSums, means: Mapping[str, float]) -> Wholes:
    """What a site adds to the second sum: squared deviations from the mean over all sites."""
    return {column: _spread(sums, column, mean) for column, mean in means.items()}


def _spread(sums: SiteSums, column: str, mean: float) -> NDArray[np.uint64]:
    own = sums.numbers.get(column)
    if own is None or not own.count:
        return whole([])
    return whole([own.squares, own.moments.between(mean)])


def counted(total: Wholes, sites: int) -> dict[str, Moments]:
    """Counts and totals of the columns that have numbers at some site."""
    _check_cancelled(total, sites)
    return {
        column: Moments(int(array[0]), rounded(array[1:]), 0.0)
        for column, array in total.items()
        if column != RARE and array[0]
    }


def pooled_sums(first: Wholes, second: Wholes, sites: int) -> Pooled:
    """What both sums of so many sites say."""
    _check_cancelled(second, sites)
    moments = {}
    for column, known in counted(first, sites).items():
        facts = {"count": known.count, "total": known.total, "squares": rounded(second[column])}
        try:
            moments[column] = ColumnSums(kind="number", marked=False, **facts).moments
        except ValidationError as error:
            raise RametError(f"the sums of {column} over all sites are not possible.") from error
    return Pooled(moments, bool(first[RARE][0]))


def _check_cancelled(total: Wholes, sites: int) -> None:
    """Masks that did not cancel out leave integers of all sizes."""
    largest = sites * 2**53
    if any((np.abs(array.view(np.int64)) > largest).any() for array in total.values()):
        raise RametError(
            "the masks of the sites' sums of columns do not cancel out, so not all of them were "
            "told the same. Start a new run."
        )
