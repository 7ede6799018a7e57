"""A method is four choices: what is shared, who is active, how replies merge, what is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from ramet.errors import RametError
from ramet.methods.activation import Activation, Everyone
from ramet.methods.merging import Merging, WeightedMean
from ramet.methods.robust import RobustMerging
from ramet.methods.training import LocalTraining, Penalty
from ramet.payload import Arrays, Sharing, everything
from ramet.tasks import GraphClassification, StructureEncoding, Task


def no_flaw(arrays: Arrays) -> str | None:  # noqa: ARG001
    """Any values will do."""
    return None


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
        flaw: what else is wrong with a reply's arrays, in a few words, once their names, shapes
            and types are right and their values finite; None if nothing is.
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
    flaw: Callable[[Arrays], str | None] = no_flaw
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


def with_merging(method: Method, merging: Merging, name: str) -> Method:
    """The method with another rule for its replies, where its own is the plain weighted mean."""
    if not isinstance(method.merging, WeightedMean):
        own = type(method.merging).__name__
        raise RametError(
            f"{method.name} merges by a rule of its own ({own}), which '{name}' cannot stand in "
            "for. Leave --merge out."
        )
    return replace(method, merging=merging)


def check_merging(method: Method, shared: Iterable[str], clients: int) -> None:
    """Refuse a robust rule that would not see whole replies, or too few to protect anybody."""
    if not isinstance(method.merging, RobustMerging):
        return
    rule = type(method.merging).__name__
    if not tuple(shared):
        raise RametError(f"{method.name} shares nothing, so {rule} has nothing to merge.")
    if method.activation.asks_parts:
        asking = type(method.activation).__name__
        raise RametError(
            f"{rule} compares whole replies, and {asking} asks clients for parts of them. Take "
            "--activation everyone or random-clients, or merge by the mean."
        )
    fewest = method.merging.fewest(clients)
    if clients < fewest:
        raise RametError(f"{rule} protects nobody among {clients} clients; it needs {fewest}.")
