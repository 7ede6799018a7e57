"""The protocol of tasks. Each task has its own types of samples and shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeAlias

import torch
from torch import Tensor, nn

from ramet.data import ClientData, StructureEncoding
from ramet.data.own.schema import Schema, TaskName
from ramet.errors import RametError
from ramet.metrics.classification import METRICS, Labels, Probabilities

Scores: TypeAlias = dict[str, float | None]
"""Metrics by name; ``val`` and ``test`` are always among them. None without samples: a client that
has none has no score, and is not in the means."""


@dataclass(frozen=True)
class Predictions:
    """True classes and predicted probabilities."""

    labels: Labels
    probabilities: Probabilities
    training: Tensor
    """The classes of the training samples."""

    @staticmethod
    def of(logits: Tensor, labels: Tensor, training: Tensor) -> Predictions:
        probabilities = logits.double().softmax(dim=1).cpu().numpy()
        return Predictions(labels.cpu().numpy(), probabilities, training)

    @property
    def majority(self) -> int:
        """The most frequent class of the training samples."""
        return int(torch.bincount(self.training).argmax()) if self.training.numel() else 0


def scored(predictions: Mapping[str, Predictions], metric: str) -> Scores:
    """The metric of each part; and the accuracy on test, if it is another."""
    scores: Scores = {
        part: METRICS[metric](given.labels, given.probabilities) if given.labels.size else None
        for part, given in predictions.items()
    }
    test = predictions["test"]
    if metric != "accuracy" and test.labels.size:
        scores["accuracy"] = METRICS["accuracy"](test.labels, test.probabilities)
    return scores


class Samples(Protocol):
    """A client's data in a task's format."""

    @property
    def manifest(self) -> dict[str, Any]:
        """Which samples are for training, validation and test, with hashes."""
        ...

    def to(self, device: torch.device) -> Samples:
        """The same samples on a device; itself if they are there, else a copy, made once."""
        ...


class Shape(Protocol):
    """The sizes in which clients may differ."""

    def plain(self) -> Any:
        """The smallest shape of this kind."""
        ...

    def other(self) -> Any:
        """A shape that differs from this one wherever two clients may differ."""
        ...


class Task(Protocol):
    """Loss, batches and scores; subclasses inherit those for classifiers."""

    name: ClassVar[TaskName]

    @property
    def metric(self) -> str:
        """Name of the metric in ``val`` and ``test``, by which rounds are chosen."""
        ...

    def samples(self, data: ClientData[Any, Any]) -> Any:
        """Convert a client's data to this task's format; raise RametError for another task's."""
        ...

    def plain_shape(self, inputs: StructureEncoding) -> Any:
        """The smallest shape, for parts of a model that do not depend on a client's data."""
        ...

    def shape(self, samples: Any) -> Any:
        """The shape for which the client's network is built."""
        ...

    def declared_shape(self, schema: Schema, inputs: StructureEncoding) -> Any:
        """The shape of the data that a schema describes."""
        ...

    def weight(self, samples: Any) -> int:
        """The client's weight in means over replies."""
        ...

    def batches(self, samples: Any, size: int, generator: torch.Generator) -> Iterator[Any]:
        """The batches of one epoch."""
        ...

    def output(self, model: nn.Module, batch: Any) -> Tensor:
        """The network's logits for a batch."""
        logits: Tensor = model(batch)
        return logits

    def loss(self, output: Tensor, batch: Any) -> Tensor:
        """The loss of a batch, given its output."""
        ...

    def encode(self, model: nn.Module, batch: Any) -> Tensor:
        """The embeddings from which the network computes its logits."""
        return encoded(model, batch)

    def labelled(self, batch: Any) -> tuple[Tensor, Tensor]:
        """The rows of the output that have a training label, and their labels."""
        ...

    def predictions(
        self, model: nn.Module, samples: Any, device: torch.device
    ) -> dict[str, Predictions]:
        """The predictions for the held-out samples of each part, ``val`` and ``test``."""
        ...

    def evaluate(self, model: nn.Module, samples: Any, device: torch.device) -> Scores:
        """``val``, ``test`` and possibly more, on the client's held-out samples."""
        return scored(self.predictions(model, samples, device), self.metric)

    def extra_scores(self, model: nn.Module, samples: Any, device: torch.device) -> Scores:  # noqa: ARG002
        """Further metrics, which need the ground truth of a simulation."""
        return {}


def encoded(model: nn.Module, batch: Any) -> Tensor:
    """Call the network's ``encode``; raise RametError if it has none."""
    encode = getattr(model, "encode", None)
    if encode is None:
        raise RametError(
            f"the network {type(model).__name__} has no method `encode`, which returns the "
            "embeddings of a batch. Add one, or use another network."
        )
    embeddings: Tensor = encode(batch)
    return embeddings


def mismatch(task: TaskName, expected: type, data: ClientData[Any, Any]) -> RametError:
    """The error for data of another task."""
    return RametError(
        f"{task} needs {expected.__name__} data, but these clients hold "
        f"{type(data.content).__name__} data. Choose a method for their task; `ramet methods NAME` "
        "shows a method's task."
    )
