"""Local: every client trains alone; the baseline for all sharing methods."""

from __future__ import annotations

from ramet.payload import nothing
from ramet.rules.method import Method


def local() -> Method:
    """Train one network per client; share nothing."""
    return Method(name="local", paper="the baseline of every paper here", shared=nothing)
