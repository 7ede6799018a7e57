"""Sums of columns as arrays of whole numbers, so that masks can hide what each site adds.

Their integers (`Moments.wholes`) are cut into limbs of 32 bits, which add up without carries.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from ramet.data.own.moments import Moments
from ramet.data.own.preparation import ColumnSums, Pooled, SiteSums
from ramet.errors import RametError

RARE = "rare classes"
_BITS, _LIMBS = 32, 66
"""Limbs for all of float64, from 2^-1074 to 2^1024, with a sign and headroom in each limb."""
Wholes = Mapping[str, NDArray[np.uint64]]


def whole_sums(sums: SiteSums, columns: Iterable[str]) -> dict[str, NDArray[np.uint64]]:
    """What a site adds: for each column its count, total and squares; whether a class is rare."""
    added = {RARE: np.array([sums.rare_classes], np.uint64)}
    for column in columns:
        own = sums.numbers.get(column)
        count, wholes = (own.count, own.moments.wholes) if own and own.count else (0, (0, 0))
        head = np.array([count], np.uint64)
        added[column] = np.concatenate([head, *map(_limbs, wholes)])
    return added


def pooled_sums(total: Wholes, sites: int) -> Pooled:
    """What the sum over so many sites says."""
    largest = sites * 2**53
    if any((np.abs(array.view(np.int64)) > largest).any() for array in total.values()):
        raise RametError(
            "the masks of the sites' sums of columns do not cancel out, so not all of them were "
            "told the same. Start a new run."
        )
    counted = {name: array for name, array in total.items() if name != RARE and array[0]}
    moments = {name: _moments(name, array) for name, array in counted.items()}
    return Pooled(moments, bool(total[RARE][0]))


def _moments(column: str, array: NDArray[np.uint64]) -> Moments:
    """The sums of a column, if a site with all rows could have sent them."""
    count, wholes = int(array[0]), array[1:].reshape(2, _LIMBS)
    try:
        own = Moments.of_wholes(count, *map(_whole, wholes))
        facts = {"count": count, "total": own.total, "squares": own.squares}
        return ColumnSums(kind="number", marked=False, **facts).moments
    except (ValidationError, OverflowError) as error:
        raise RametError(f"the sums of {column} over all sites are not possible.") from error


def _limbs(number: int) -> NDArray[np.uint64]:
    sign, left = -1 if number < 0 else 1, abs(number)
    limbs = [(left >> (_BITS * place)) % 2**_BITS for place in range(_LIMBS)]
    return (sign * np.array(limbs, np.int64)).view(np.uint64)


def _whole(limbs: NDArray[np.uint64]) -> int:
    signed = limbs.view(np.int64).tolist()
    return sum(limb << (_BITS * place) for place, limb in enumerate(signed))
