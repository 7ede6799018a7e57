"""Methods: what is shared, who is active, how replies are merged, and what is trained."""

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
    """Accept any values."""
    return None


@dataclass(frozen=True)
class Method:
    """A federated learning method, as a frozen record of its parts.

    Args:
        name: shown in tables and used in names of folders.
        paper: where the method was published.
        model: builds the network for a client's shape.
        inputs: encodings that a client computes from its graphs once, before training.
        shared: patterns over the model's parameter names; no other parameter leaves a client.
        training: what a client does between two messages.
        penalty: a term added to the loss, or None.
        activation: which clients take part in a round, and which arrays each must send.
        switchable: patterns over the shared names that an activation may spare a client. Leave out
            arrays that the merging needs from every active client.
        merging: how the server turns replies into what it sends next.
        flaw: a further check of a reply's arrays, called once their names, shapes and types are
            right and their values finite. Returns the problem in a few words, or None.
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
    """Names of the shared arrays that a client may be spared."""
    return tuple(name for name in shared if name in method.switchable)


def check_activation(method: Method, shared: Iterable[str]) -> None:
    """Raise RametError if the activation cannot work with this method."""
    names, rule = tuple(shared), type(method.activation).__name__
    if isinstance(method.activation, Everyone):
        return
    if not names:
        raise RametError(
            f"{method.name} shares nothing, so {rule} would only keep clients from training. "
            "Leave out the activation."
        )
    if method.activation.asks_parts and not switchable_arrays(method, names):
        raise RametError(
            f"{method.name} merges whole replies only, but {rule} asks for parts of them. Use "
            "--activation everyone or random-clients."
        )


def with_merging(method: Method, merging: Merging, name: str) -> Method:
    """Replace the method's merging rule; only a plain weighted mean can be replaced."""
    if not isinstance(method.merging, WeightedMean):
        own = type(method.merging).__name__
        raise RametError(
            f"{method.name} needs its own merging rule ({own}), which '{name}' cannot replace. "
            "Omit --merge."
        )
    return replace(method, merging=merging)


def check_merging(method: Method, shared: Iterable[str], clients: int) -> None:
    """Raise RametError if a robust rule would get partial replies, or too few of them."""
    if not isinstance(method.merging, RobustMerging):
        return
    rule = type(method.merging).__name__
    if not tuple(shared):
        raise RametError(f"{method.name} shares nothing, so {rule} has nothing to merge.")
    if method.activation.asks_parts:
        activation = type(method.activation).__name__
        raise RametError(
            f"{rule} compares whole replies, but {activation} asks clients for parts of them. Use "
            "--activation everyone or random-clients, or --merge mean."
        )
    needed = method.merging.min_clients(clients)
    if clients < needed:
        raise RametError(
            f"{rule} gives no protection with {clients} clients; it needs at least {needed}."
        )
