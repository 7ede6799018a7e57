"""A method is four choices: what is shared, who is active, how replies merge, what is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from ramet.errors import RametError
from ramet.methods.activation import Activation, Everyone
from ramet.methods.merging import Merging, WeightedMean
from ramet.methods.training import LocalTraining, Penalty
from ramet.payload import Sharing, everything
from ramet.tasks import GraphClassification, StructureEncoding, Task


@dataclass(frozen=True)
class Method:
    """One row of the methods' table; every part is frozen data with a rule inside.

    Args:
        name: what people call it, in tables and folders.
        paper: where it is from.
        model: makes the network for a client's shape.
        inputs: what the client computes from its graphs, once, before training.
        shared: patterns over the model's parameter names; nothing else leaves a client.
        training: what a client does between two messages.
        penalty: what is added to the loss, if anything.
        activation: who takes part in a round, and what each is asked for.
        switchable: patterns over shared names; an activation may spare a client these. Arrays
            that the merging needs from everyone who takes part are not among them.
        merging: how the server turns replies into what it sends next.
        task: loss, batches and scores.
    """

    name: str
    paper: str
    model: Callable[[Any], nn.Module]
    shared: Sharing
    inputs: StructureEncoding = field(default_factory=lambda: StructureEncoding(0, 0))
    training: LocalTraining = field(default_factory=LocalTraining)
    penalty: Penalty | None = None
    activation: Activation = field(default_factory=Everyone)
    switchable: Sharing = everything
    merging: Merging = field(default_factory=WeightedMean)
    task: Task = field(default_factory=GraphClassification)


def switchable_arrays(method: Method, shared: Iterable[str]) -> tuple[str, ...]:
    """The shared arrays that a client may be spared."""
    return tuple(name for name in shared if name in method.switchable)


def check_activation(method: Method, shared: Iterable[str]) -> None:
    """Refuse an activation that has nothing to work on."""
    names, rule = tuple(shared), type(method.activation).__name__
    if isinstance(method.activation, Everyone):
        return
    if not names:
        raise RametError(
            f"{method.name} shares nothing, so {rule} would only keep clients from training. "
            "Leave the activation out."
        )
    if method.activation.asks_parts and not switchable_arrays(method, names):
        raise RametError(
            f"{method.name} merges whole replies only, and {rule} asks for parts of them. Take "
            "everyone or random-clients."
        )
