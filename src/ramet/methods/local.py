"""Local: every client trains alone; the baseline for all sharing methods."""

from __future__ import annotations

from functools import partial

from ramet.methods.base import Method
from ramet.methods.training import LocalTraining
from ramet.models import GIN, GraphNetwork
from ramet.payload import nothing


def local(
    network: GraphNetwork = GraphNetwork(),  # noqa: B008 (frozen)
    training: LocalTraining = LocalTraining(),  # noqa: B008 (frozen)
) -> Method:
    """Train a GIN per client; share nothing."""
    return Method(
        name="local",
        paper="the baseline of every paper here",
        model=partial(GIN, settings=network),
        shared=nothing,
        training=training,
    )
