"""A method is four choices: what is shared, who is active, how replies merge, what is trained."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from ramet.methods.activation import Activation, Everyone
from ramet.methods.merging import Merging, WeightedMean
from ramet.methods.training import LocalTraining, Penalty
from ramet.payload import Sharing
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
        activation: who takes part in a round.
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
    merging: Merging = field(default_factory=WeightedMean)
    task: Task = field(default_factory=GraphClassification)
