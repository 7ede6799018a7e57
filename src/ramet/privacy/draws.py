"""Where noise and the choice of graphs are drawn from.

The coordinator knows the run's seed, so noise drawn from it could be subtracted. A deployed site
draws from the operating system. A simulation draws from the seed and protects nothing.
"""

from __future__ import annotations

import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ramet.errors import RametError

_SUMMANDS = 4
_MANTISSA = 53


class Draws(Protocol):
    """A source of random numbers."""

    def normal(self, shape: Sequence[int]) -> Tensor:
        """Standard normal numbers, in float64."""
        ...

    def integers(self, shape: Sequence[int], deviation: float) -> NDArray[np.int64]:
        """Integers of a discrete Gaussian."""
        ...

    def chosen(self, count: int, probability: float) -> Tensor:
        """For each of this many units, whether it is chosen: a tensor of bools."""
        ...


@dataclass(frozen=True)
class SeededDraws:
    """Draws from a generator, for simulations."""

    generator: torch.Generator

    def normal(self, shape: Sequence[int]) -> Tensor:
        return torch.randn(tuple(shape), generator=self.generator, dtype=torch.float64)

    def integers(self, shape: Sequence[int], deviation: float) -> NDArray[np.int64]:
        """Rounded normal numbers, which are not quite a discrete Gaussian: for simulations."""
        return np.rint(deviation * self.normal(shape).numpy()).astype(np.int64)

    def chosen(self, count: int, probability: float) -> Tensor:
        drawn = torch.rand(count, generator=self.generator, dtype=torch.float64)
        return drawn < probability


@dataclass(frozen=True)
class SystemDraws:
    """Draws from the operating system, which nobody can repeat.

    A normal number is half the sum of four, so that the gaps between floating-point numbers near
    one of them do not tell which noise is possible.
    """

    def normal(self, shape: Sequence[int]) -> Tensor:
        count = math.prod(shape)
        pairs = (_SUMMANDS * count + 1) // 2
        radius = np.sqrt(-2.0 * np.log1p(-_uniform(pairs)))
        angle = 2.0 * math.pi * _uniform(pairs)
        both = np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])
        summed = both[: _SUMMANDS * count].reshape(_SUMMANDS, count).sum(axis=0)
        return torch.from_numpy(summed / math.sqrt(_SUMMANDS)).reshape(tuple(shape))

    def integers(self, shape: Sequence[int], deviation: float) -> NDArray[np.int64]:
        """Drawn by OpenDP, exactly and from the operating system's randomness."""
        count = math.prod(shape)
        drawn = discrete_gaussian(deviation)([0] * count) if count else []
        return np.array(drawn, np.int64).reshape(tuple(shape))

    def chosen(self, count: int, probability: float) -> Tensor:
        return torch.from_numpy(_uniform(count) < probability)


def discrete_gaussian(deviation: float) -> Any:
    """OpenDP's measurement that adds a discrete Gaussian to each of a list of integers."""
    try:
        from opendp.domains import atom_domain, vector_domain
        from opendp.measurements import make_gaussian
        from opendp.metrics import l2_distance
        from opendp.mod import enable_features
    except ImportError as error:
        raise RametError(
            "noise inside a sum needs OpenDP. Install it: pip install 'ramet[privacy]'"
        ) from error
    enable_features("contrib")
    integers = vector_domain(atom_domain(T="i64"))
    return make_gaussian(integers, l2_distance(T="f64"), scale=deviation)


def _uniform(count: int) -> NDArray[np.float64]:
    """Numbers in [0, 1), each with 53 random bits."""
    words = np.frombuffer(os.urandom(8 * count), np.uint64)
    return (words >> np.uint64(64 - _MANTISSA)).astype(np.float64) * 2.0**-_MANTISSA
