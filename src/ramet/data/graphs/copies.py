"""Graphs and samples on other devices."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import torch
from torch import Tensor

Held = TypeVar("Held")


def copy_on(device: torch.device, owner: Held, now: torch.device, move: Callable[[], Held]) -> Held:
    """What ``move`` returns, which is called once for each device; the owner if it is there.

    The copy is kept, with all that it computes and caches on its device.
    """
    if device == now:
        return owner
    copies: dict[torch.device, Held] = owner.__dict__.setdefault("_copies", {})
    if device not in copies:
        copies[device] = move()
    return copies[device]


def has_csr_products(values: Tensor) -> bool:
    """Whether the device of these values can multiply by matrices in CSR format."""
    return values.device.type in ("cpu", "cuda")
