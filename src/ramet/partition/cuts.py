"""Ways to cut one dataset over many clients: same labels and seed, same parts on every machine."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from ramet.errors import RametError

SMALLEST = 10
"""A client needs this many samples, so that validation and test have one each."""
_DRAWS = 1000


class Cut(Protocol):
    """How many parts, and which samples belong to each."""

    @property
    def clients(self) -> int: ...

    def __call__(self, labels: Tensor, seed: int) -> list[Tensor]: ...


@dataclass(frozen=True)
class AtRandom:
    """Equal parts of a shuffled dataset: the IID setting."""

    clients: PositiveInt = 10

    def __call__(self, labels: Tensor, seed: int) -> list[Tensor]:
        order = np.random.default_rng(seed).permutation(labels.numel())
        return _checked(np.array_split(order, self.clients))


@dataclass(frozen=True)
class BySize:
    """Parts whose sizes fall off as 1, 2^-skew, 3^-skew, …; skew 0 is `AtRandom`."""

    clients: PositiveInt = 10
    skew: NonNegativeFloat = 1.0

    def __call__(self, labels: Tensor, seed: int) -> list[Tensor]:
        order = np.random.default_rng(seed).permutation(labels.numel())
        shares = np.arange(1, self.clients + 1, dtype=float) ** -self.skew
        spare = labels.numel() - SMALLEST * self.clients
        ends = np.cumsum(SMALLEST + shares / shares.sum() * spare).round().astype(int)
        return _checked(np.split(order, ends[:-1]))


@dataclass(frozen=True)
class ByLabel:
    """Each class is dealt out in shares drawn from a Dirichlet(alpha); small alpha, few classes."""

    clients: PositiveInt = 10
    alpha: PositiveFloat = 0.5

    def __call__(self, labels: Tensor, seed: int) -> list[Tensor]:
        rng = np.random.default_rng(seed)
        kinds = labels.numpy()
        for _ in range(_DRAWS):
            parts: list[list[np.ndarray]] = [[] for _ in range(self.clients)]
            for kind in np.unique(kinds):
                members = rng.permutation(np.flatnonzero(kinds == kind))
                shares = rng.dirichlet(np.full(self.clients, self.alpha))
                ends = (np.cumsum(shares)[:-1] * members.size).astype(int)
                for part, dealt in zip(parts, np.split(members, ends), strict=True):
                    part.append(dealt)
            whole = [np.concatenate(part) for part in parts]
            if min(part.size for part in whole) >= SMALLEST:
                return _checked(whole)
        raise RametError(
            f"no draw of Dirichlet({self.alpha}) gave each of {self.clients} clients "
            f"{SMALLEST} samples of {labels.numel()}. Use fewer clients or a larger alpha."
        )


def _checked(parts: list[np.ndarray]) -> list[Tensor]:
    smallest = min(part.size for part in parts)
    if smallest < SMALLEST:
        raise RametError(
            f"{len(parts)} clients leave one with {smallest} samples; each needs {SMALLEST}. "
            "Use fewer clients or a larger dataset."
        )
    return [torch.from_numpy(np.sort(part)) for part in parts]
