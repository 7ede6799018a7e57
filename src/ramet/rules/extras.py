"""Extras: arrays that travel besides parameters, such as control variates or class prototypes.

A method declares its extras with their start values. They have a place of their own in messages:
they are counted and audited like parameters, but no activation lets a client omit any of them, and
neither norm bounds nor robust merging rules see them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from torch import Tensor, nn

from ramet.errors import RametError
from ramet.payload import Array, Arrays, Sharing, everything
from ramet.rules.merging import Merging
from ramet.training.local import After

TRAINING = "training"
"""The name of the exchange in which clients train; stages have their own names."""
ExtrasStart: TypeAlias = Callable[[nn.Module, Sequence[str]], Mapping[str, Tensor]]


def no_fault(arrays: Arrays) -> str | None:  # noqa: ARG001
    """Accept any values."""
    return None


def are_counts(values: Array) -> bool:
    """Whether these could be numbers of samples, by which means are weighted."""
    return bool((values >= 0).all() and (values == np.rint(values)).all())


@dataclass(frozen=True)
class Extras:
    """A declaration of extras.

    Args:
        start: returns the names and start values, given a network with the arrays that all clients
            start with, and the names of its shared arrays. Server and clients call it, so it must
            not depend on a client's data.
        rule: how the server merges them: from their sum (``Summing``), or with a rule that sees
            each reply's ``extras``, in order of arrival; None if clients are sent none. Then a
            merging rule of the method can read them in ``reply.extras``.
        fault: a further check of the extras in a reply; returns the fault in a few words, or None.
        up: patterns over the names that a client sends.
        down: patterns over the names that a client receives.
    """

    start: ExtrasStart
    rule: Merging | None = None
    fault: Callable[[Arrays], str | None] = no_fault
    up: Sharing = everything
    down: Sharing = everything


@dataclass(frozen=True)
class Stage:
    """An exchange of extras before clients train.

    The result of the server's rule reaches clients with the next message of the same round. After
    the last round with the stage, clients keep it, instead of receiving it again.

    Args:
        name: unique within the method.
        extras: what is exchanged, with a rule; the names are different from all other extras of
            the method.
        work: what a client does; it sets ``sending``, and may use ``memory``. The model is the
            client's own from its last round: the merge of that round comes with the message to
            train.
        last: the last round that has this stage; None for every round.
    """

    name: str
    extras: Extras
    work: After
    last: int | None = None

    def __post_init__(self) -> None:
        if self.extras.rule is None:
            raise RametError(f"the stage '{self.name}' needs a rule for its extras.")
        if self.name == TRAINING:
            raise RametError(f"a stage cannot be called '{TRAINING}'.")

    def in_round(self, number: int) -> bool:
        return self.last is None or number <= self.last
