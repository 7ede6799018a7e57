"""What a method needs of a task; each task has samples and shapes of its own kind."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Protocol

import torch
from torch import Tensor, nn

from ramet.data import Held, StructureEncoding
from ramet.data.own import Schema
from ramet.tasks.scores import Scores


class Samples(Protocol):
    """What a client learns from."""

    @property
    def manifest(self) -> dict[str, Any]:
        """Which samples train, choose and judge, with hashes."""
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

    measure: ClassVar[str]
    """What the scores ``val`` and ``test`` are, as people call it."""

    def samples(self, held: Held[Any, Any]) -> Any:
        """A client's data, made ready; an error that says why if they are not of this task."""
        ...

    def plain_shape(self, inputs: StructureEncoding) -> Any:
        """The smallest shape there is, for what does not depend on a client's data."""
        ...

    def shape(self, samples: Any) -> Any:
        """What the client's network is built for."""
        ...

    def declared_shape(self, schema: Schema, inputs: StructureEncoding) -> Any:
        """The shape of samples that a site has only told the form of."""
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

    def judge(self, model: nn.Module, samples: Any, device: torch.device) -> Scores:
        """``val``, ``test`` and perhaps more, on the client's own held-out samples."""
        ...

    def study(self, model: nn.Module, samples: Any, device: torch.device) -> Scores:
        """What more can be said of the model where the truth is known: in a simulation only."""
        ...
