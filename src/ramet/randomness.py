"""Random draws that depend only on the run's seed, who draws, the round and the purpose.

Engines visit clients in different orders and in different processes. They agree to the last bit
because no draw depends on earlier draws elsewhere.

Whoever knows the run's seed can repeat every draw, and the coordinator knows it. This includes
PyTorch's global draws during training. So noise that protects privacy must not come from here: the
coordinator could compute it and subtract it. Draw it from the operating system (`secrets`,
`os.urandom`, `random.SystemRandom`); the run is then not reproducible.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch

EVERYONE = ""
"""The `who` of draws that are equal on all sites, such as the initial shared arrays."""


@dataclass(frozen=True)
class Randomness:
    """The source of all random draws of one site, or of the server, in one round."""

    seed: int
    who: str
    round: int

    def number(self, purpose: str) -> int:
        """A 63-bit seed, derived from (seed, who, round, purpose) only."""
        text = json.dumps([self.seed, self.who, self.round, purpose])
        return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8]) >> 1

    def generator(self, purpose: str) -> torch.Generator:
        """A new PyTorch generator for this purpose, always in the same initial state."""
        return torch.Generator().manual_seed(self.number(purpose))

    @contextmanager
    def torch_draws(self, purpose: str) -> Iterator[None]:
        """Make PyTorch's global draws (dropout, initial weights) depend on this purpose only."""
        with torch.random.fork_rng():
            _seed(self.number(purpose))
            yield


def _seed(number: int) -> None:
    """Like `torch.manual_seed`, but without the milliseconds it spends on absent devices."""
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_available():
        torch.cuda.manual_seed_all(number)
    if torch.backends.mps.is_available():
        torch.mps.manual_seed(number)
