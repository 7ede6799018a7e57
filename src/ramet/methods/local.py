"""Local: every client trains alone. The yardstick that sharing has to beat."""

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
    """A GIN per client, nothing shared."""
    return Method(
        name="local",
        paper="the baseline of every paper here",
        model=partial(GIN, settings=network),
        shared=nothing,
        training=training,
    )
