"""The mean and the deviation of numbers that are predicted."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def standardising(labels: Sequence[Tensor]) -> Tensor:  # [2, outputs]
    """The mean and the deviation of all numbers that are known; deviations of 0 count as 1."""
    every = torch.cat([*labels]).double()
    known = ~every.isnan()
    count = known.sum(dim=0).clamp(min=1)
    mean = every.nan_to_num().sum(dim=0) / count
    deviation = (((every - mean) ** 2).nan_to_num().sum(dim=0) / count).sqrt()
    return torch.stack([mean, torch.where(deviation > 0, deviation, 1.0)]).float()
