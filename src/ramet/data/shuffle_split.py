"""Stratified random splits with the same indices as scikit-learn's.

Importing scikit-learn takes longer than reading most datasets, so its split is computed here.
"""

from __future__ import annotations

from math import ceil
from typing import TypeAlias

import numpy as np
from numpy.random import RandomState
from numpy.typing import NDArray

Indices: TypeAlias = NDArray[np.int64]


def shuffle_split(samples: int, share: float, seed: int) -> tuple[Indices, Indices]:
    """Split the indices at random; the second part has this share, rounded up."""
    taken = ceil(share * samples)
    order = RandomState(seed).permutation(samples)
    return order[taken:], order[:taken]


def stratified_shuffle_split(classes: Indices, share: float, seed: int) -> tuple[Indices, Indices]:
    """Like `shuffle_split`, with about the same share of each class in both parts."""
    draw = RandomState(seed)
    _, of_sample, counts = np.unique(classes, return_inverse=True, return_counts=True)
    taken = ceil(share * classes.size)
    rest_counts = _apportion(counts, classes.size - taken, draw)
    taken_counts = _apportion(counts - rest_counts, taken, draw)
    members = np.split(np.argsort(of_sample, kind="stable"), np.cumsum(counts)[:-1])
    shuffled = [own[draw.permutation(own.size)] for own in members]
    rest, others = zip(
        *(
            (own[:first], own[first : first + second])
            for own, first, second in zip(shuffled, rest_counts, taken_counts, strict=True)
        ),
        strict=True,
    )
    return draw.permutation(np.concatenate(rest)), draw.permutation(np.concatenate(others))


def _apportion(counts: Indices, total: int, draw: RandomState) -> Indices:
    """Divide a total in proportion to counts: largest remainders first, equal ones by lot."""
    exact = counts / counts.sum() * total
    whole: Indices = np.floor(exact).astype(np.int64)
    remainders = exact - whole
    missing = int(total - whole.sum())
    for remainder in np.unique(remainders)[::-1]:
        if missing <= 0:
            break
        tied = np.flatnonzero(remainders == remainder)
        lucky = draw.choice(tied, size=min(tied.size, missing), replace=False)
        whole[lucky] += 1
        missing -= lucky.size
    return whole
