"""Ways to divide one dataset among clients, determined by the labels and a seed."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import torch
from pydantic import NonNegativeFloat, PositiveFloat, PositiveInt
from pydantic.dataclasses import dataclass
from torch import Tensor

from ramet.errors import RametError

MIN_SAMPLES = 10
"""Minimum per client, so that validation and test have at least one sample each."""
_MAX_DRAWS = 1000


class Cut(Protocol):
    """A number of parts, and a rule that assigns samples to them."""

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
    """Parts whose sizes above the minimum fall as 1, 2^-skew, 3^-skew, …; skew 0: equal parts."""

    clients: PositiveInt = 10
    skew: NonNegativeFloat = 1.0

    def __call__(self, labels: Tensor, seed: int) -> list[Tensor]:
        order = np.random.default_rng(seed).permutation(labels.numel())
        shares = np.arange(1, self.clients + 1, dtype=float) ** -self.skew
        surplus = labels.numel() - MIN_SAMPLES * self.clients
        ends = np.cumsum(MIN_SAMPLES + shares / shares.sum() * surplus).round().astype(int)
        return _checked(np.split(order, ends[:-1]))


@dataclass(frozen=True)
class ByLabel:
    """Shares of each class drawn from a Dirichlet(alpha); a small alpha gives skewed classes."""

    clients: PositiveInt = 10
    alpha: PositiveFloat = 0.5

    def __call__(self, labels: Tensor, seed: int) -> list[Tensor]:
        rng = np.random.default_rng(seed)
        kinds = labels.numpy()
        for _ in range(_MAX_DRAWS):
            parts: list[list[np.ndarray]] = [[] for _ in range(self.clients)]
            for kind in np.unique(kinds):
                members = rng.permutation(np.flatnonzero(kinds == kind))
                shares = rng.dirichlet(np.full(self.clients, self.alpha))
                ends = (np.cumsum(shares)[:-1] * members.size).astype(int)
                for part, chunk in zip(parts, np.split(members, ends), strict=True):
                    part.append(chunk)
            joined = [np.concatenate(part) for part in parts]
            if min(part.size for part in joined) >= MIN_SAMPLES:
                return _checked(joined)
        raise RametError(
            f"no draw of Dirichlet({self.alpha}) gave each of {self.clients} clients "
            f"{MIN_SAMPLES} of {labels.numel()} samples. Use fewer clients or a larger alpha."
        )


def _checked(parts: list[np.ndarray]) -> list[Tensor]:
    smallest = min(part.size for part in parts)
    if smallest < MIN_SAMPLES:
        raise RametError(
            f"{len(parts)} clients leave one with {smallest} samples; each needs {MIN_SAMPLES}. "
            "Use fewer clients or a larger dataset."
        )
    return [torch.from_numpy(np.sort(part)) for part in parts]
