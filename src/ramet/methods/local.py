"""Local: every client trains alone. The yardstick that sharing has to beat."""

from __future__ import annotations

from functools import partial

from pydantic import PositiveInt

from ramet.methods.base import Method
from ramet.methods.training import LocalTraining
from ramet.models import GIN, Chance
from ramet.payload import nothing


def local(
    hidden: PositiveInt = 64,
    layers: PositiveInt = 3,
    dropout: Chance = 0.5,
    training: LocalTraining = LocalTraining(),  # noqa: B008 (frozen)
) -> Method:
    """A GIN per client, nothing shared."""
    return Method(
        name="local",
        paper="the baseline of every paper here",
        model=partial(GIN, hidden=hidden, layers=layers, dropout=dropout),
        shared=nothing,
        training=training,
    )
