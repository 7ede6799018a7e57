"""Methods: what is shared, who is active, how replies are merged, and what is trained."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import Any, TypeAlias

from torch import Tensor, nn

from ramet.errors import RametError
from ramet.models.networks import DEFAULT_NETWORKS, NETWORKS
from ramet.payload import Arrays, Sharing, everything, only
from ramet.rules.activation import Activation, Everyone
from ramet.rules.extras import TRAINING, Extras, Stage, no_fault
from ramet.rules.fixed_point import FixedPoint
from ramet.rules.merging import Merging, WeightedMean
from ramet.rules.networks import array_shapes
from ramet.rules.pace import FirstReplies
from ramet.rules.release import Release
from ramet.rules.sharing import NetworkArrays, SharingRule
from ramet.tasks import GraphClassification, StructureEncoding, Task
from ramet.training.local import DEFAULT_TRAINING, After, Penalty, Training

Model: TypeAlias = Callable[[Any], nn.Module]
"""Builds the network for a client's shape."""
Personal: TypeAlias = Callable[[nn.Module, Mapping[str, Tensor]], nn.Module]
"""Returns the network that a client uses, given its trained network and its memory."""


@dataclass(frozen=True, kw_only=True)
class Method:
    """A federated learning method, as a frozen record of its parts.

    A method that leaves ``model``, ``task`` and ``training`` open runs with any network on any
    task.

    Args:
        name: shown in tables and used in names of folders.
        paper: where the method was published.
        shared: patterns over the model's parameter names, or a rule that returns them once the
            network is known; no other parameter leaves a client.
        model: builds the network for a client's shape; None for the network of the run.
        task: loss, batches and scores; None for the task of the run's setting.
        training: what a client does between two messages; None for the default of the task.
        inputs: encodings that a client computes from its graphs once, before training.
        penalty: a term added to the loss, or None.
        activation: which clients take part in a round, and which arrays each must send.
        switchable: patterns over the shared names that an activation may let a client omit. Do not
            name arrays that the merging needs from every active client. None for the choice of
            the network, by default everything.
        up: patterns over the shared names that a client sends; a site refuses to send any other,
            whatever the server asks for.
        down: patterns over the shared names that a client receives; a site refuses any other.
        merging: how the server turns replies into what it sends next.
        extras: arrays besides parameters that travel with every round, or None.
        after: what a client does after training, or None.
        personal: returns the network that a client evaluates and keeps as its final model, given
            its trained network and its memory; None for the trained network.
        release: what happens to a reply at the site's exit, in this order.
        stages: exchanges of extras before the clients train.
        phases: rounds from which on clients compute more or less than before, such as the first in
            which each trains alone. Clients count their operations there anew.
        pace: whether a round waits for all replies (None) or only for the first of them.
        summation: how the server adds up the terms of its rules, in fixed point; None for sums of
            whole replies in float64.
        fault: a further check of a reply's arrays, called once their names, shapes and types are
            right and their values finite. Returns the fault in a few words, or None.
        needs_classes: whether it computes with the classes of samples, so that it cannot learn
            numbers or several labels.
    """

    name: str
    paper: str
    shared: Sharing | SharingRule
    model: Model | None = None
    task: Task | None = None
    training: Training | None = None
    inputs: StructureEncoding = field(default_factory=lambda: StructureEncoding(0, 0))
    penalty: Penalty | None = None
    activation: Activation = field(default_factory=Everyone)
    switchable: Sharing | None = None
    up: Sharing = everything
    down: Sharing = everything
    merging: Merging = field(default_factory=WeightedMean)
    extras: Extras | None = None
    after: After | None = None
    personal: Personal | None = None
    release: tuple[Release, ...] = ()
    stages: tuple[Stage, ...] = ()
    phases: tuple[int, ...] = ()
    pace: FirstReplies | None = None
    summation: FixedPoint | None = None
    fault: Callable[[Arrays], str | None] = no_fault
    needs_classes: bool = False

    def __post_init__(self) -> None:
        if not isinstance(self.stages, tuple):
            raise RametError(f"stages of {self.name} must be a tuple, such as stages=(one,).")
        names = [stage.name for stage in self.stages]
        if len({*names}) < len(names):
            raise RametError(f"two stages of {self.name} have the same name.")


@dataclass(frozen=True, kw_only=True)
class AssembledMethod(Method):
    """A method with the network, the task and the training of a run: what engines execute."""

    shared: Sharing
    model: Model
    task: Task
    training: Training
    switchable: Sharing

    @cached_property
    def drawn(self) -> dict[tuple[Any, int], Arrays]:
        """Shared arrays before round 1, by shape and seed, as far as they have been drawn."""
        return {}


def assembled(
    method: Method,
    task: Task | None = None,
    network: Model | None = None,
    training: Training | None = None,
    same_schema: bool = False,
) -> AssembledMethod:
    """Fill in what a method leaves open.

    Args:
        method: its own network, task and training take precedence.
        task: by default graph classification.
        network: by default that of the task.
        training: by default that of the task.
        same_schema: whether all clients have the same features and classes, or node types and
            relations, so that all their arrays have the same sizes.
    """
    task = method.task or task or GraphClassification()
    model = method.model or network or default_network(task)
    shared = method.shared
    if not isinstance(shared, Sharing):
        shared = shared(network_arrays(model, task, method.inputs, same_schema))
    given = {f.name: getattr(method, f.name) for f in fields(Method)}
    chosen = {
        "shared": shared,
        "model": model,
        "task": task,
        "training": method.training or training or DEFAULT_TRAINING[task.name],
        "switchable": _switchable(model) if method.switchable is None else method.switchable,
    }
    return AssembledMethod(**{**given, **chosen})


def default_network(task: Task) -> Model:
    shape = type(task.plain_shape(StructureEncoding(0, 0)))
    return NETWORKS[DEFAULT_NETWORKS[shape]][shape]


def network_arrays(
    model: Model, task: Task, inputs: StructureEncoding, same_schema: bool
) -> NetworkArrays:
    """The arrays of a network, measured on the smallest shape and on one that differs from it."""
    plain = task.plain_shape(inputs)
    sizes = array_shapes(model, plain)
    if same_schema:
        return NetworkArrays(tuple(sizes))
    other = array_shapes(model, plain.other())
    varying = {n for n in {**sizes, **other} if sizes.get(n) != other.get(n)}
    return NetworkArrays(tuple(sizes), frozenset(varying), _of_class(model, "together") or ())


def _switchable(model: Model) -> Sharing:
    """The network's own choice, or everything."""
    patterns = _of_class(model, "switchable")
    return everything if patterns is None else only(*patterns)


def _of_class(model: Model, name: str) -> tuple[str, ...] | None:
    """What the network's class says of its attributes; None if it says nothing."""
    found: tuple[str, ...] | None = getattr(getattr(model, "func", model), name, None)
    return found


def declared_extras(method: Method) -> dict[str, Extras]:
    """All extras of a method, by the exchange in which clients send them: a stage, or training."""
    own = {TRAINING: method.extras} if method.extras is not None else {}
    return {stage.name: stage.extras for stage in method.stages} | own


def step_of(method: Method, number: int, stage: Stage | None = None) -> int:
    """The step of a round's stage, or of its training; without stages the number of the round."""
    exchanges = len(method.stages) + 1
    index = method.stages.index(stage) if stage is not None else len(method.stages)
    return (number - 1) * exchanges + index + 1


def sent_up(method: AssembledMethod, shared: Iterable[str]) -> tuple[str, ...]:
    """Names of the shared arrays that a client sends."""
    return tuple(name for name in shared if name in method.up)


def switchable_arrays(method: AssembledMethod, shared: Iterable[str]) -> tuple[str, ...]:
    """Names of the arrays that a client may omit."""
    return tuple(name for name in sent_up(method, shared) if name in method.switchable)
