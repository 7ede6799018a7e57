"""What a method needs of a task; each task has samples and shapes of its own kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from ramet.data import ClientData, StructureEncoding
from ramet.data.own import Schema, TaskName
from ramet.errors import RametError

Scores: TypeAlias = dict[str, float]
"""Metrics by name; ``val`` and ``test`` are always among them."""


class Samples(Protocol):
    """What a client learns from."""

    @property
    def manifest(self) -> dict[str, Any]:
        """Which samples are for training, validation and test, with hashes."""
        ...


class Shape(Protocol):
    """The sizes in which clients differ."""

    def plain(self) -> Any:
        """The smallest shape like this one."""
        ...

    def other(self) -> Any:
        """One that differs from this wherever two clients may."""
        ...


class Task(Protocol):
    """Loss, batches and scores."""

    name: ClassVar[TaskName]
    metric: ClassVar[str]
    """What the scores ``val`` and ``test`` are, as people call it."""

    def samples(self, held: ClientData[Any, Any]) -> Any:
        """A client's data in this task's form; an error if they are for another task."""
        ...

    def plain_shape(self, inputs: StructureEncoding) -> Any:
        """The smallest shape there is, for what does not depend on a client's data."""
        ...

    def shape(self, samples: Any) -> Any:
        """What the client's network is built for."""
        ...

    def declared_shape(self, schema: Schema, inputs: StructureEncoding) -> Any:
        """The shape of the samples that a schema describes."""
        ...

    def weight(self, samples: Any) -> int:
        """How much the client's reply counts."""
        ...

    def batches(self, samples: Any, size: int, order: torch.Generator) -> Iterator[Any]:
        """One epoch."""
        ...

    def loss(self, model: nn.Module, batch: Any) -> Tensor:
        """A batch's loss, to be minimised."""
        ...

    def evaluate(self, model: nn.Module, samples: Any, device: torch.device) -> Scores:
        """``val``, ``test`` and perhaps more, on the client's own held-out samples."""
        ...

    def extra_scores(self, model: nn.Module, samples: Any, device: torch.device) -> Scores:
        """Further metrics that need the ground truth of a simulation."""
        ...


def mismatch(task: TaskName, expected: type, held: ClientData[Any, Any]) -> RametError:
    """The error for data that are for another task."""
    return RametError(
        f"{task} needs {expected.__name__} data, and these clients hold "
        f"{type(held.content).__name__} data. Choose a method for their task; `ramet methods NAME` "
        "says what a method is for."
    )
