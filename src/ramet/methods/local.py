"""Local: every client trains alone; the baseline for all sharing methods."""

from __future__ import annotations

from ramet.methods.base import Method
from ramet.payload import nothing


def local() -> Method:
    """Train one network per client; share nothing."""
    return Method(name="local", paper="the baseline of every paper here", shared=nothing)
