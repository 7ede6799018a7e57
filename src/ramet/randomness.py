"""Every random draw comes from (run seed, who, round, purpose), never from a global order.

Two ways of running the same experiment visit clients in different orders and in different
processes. They agree to the last bit because no draw depends on what was drawn before elsewhere.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

EVERYONE = ""
"""The `who` of draws that all sites must make alike, such as the start of the shared arrays."""


@dataclass(frozen=True)
class Randomness:
    """Where one site (or the server) gets its draws from in one round."""

    seed: int
    who: str
    round: int

    def number(self, purpose: str) -> int:
        """A 63-bit seed that only (seed, who, round, purpose) decides."""
        text = json.dumps([self.seed, self.who, self.round, purpose])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1

    def generator(self, purpose: str) -> torch.Generator:
        """PyTorch's generator for this purpose, always at its start."""
        return torch.Generator().manual_seed(self.number(purpose))

    @contextmanager
    def torch_draws(self, purpose: str) -> Iterator[None]:
        """Inside, PyTorch's own draws (dropout, initial weights) come from this purpose alone."""
        with torch.random.fork_rng():
            _seed(self.number(purpose))
            yield


def _seed(number: int) -> None:
    """As `torch.manual_seed`, without its milliseconds for devices that are not there."""
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(number)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(number)
