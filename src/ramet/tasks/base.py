"""The protocol of tasks. Each task has its own types of samples and shapes."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Protocol, TypeAlias, TypeVar, runtime_checkable

import numpy as np
import torch
from torch import Tensor, nn

from ramet.data import ClientData, GraphBlock, NodeGraph, Split, StructureEncoding
from ramet.data.own.schema import Schema, TaskName
from ramet.errors import RametError
from ramet.metrics import classification, multilabel
from ramet.metrics.metric import Metric
from ramet.metrics.summary import Baseline
from ramet.scale import SHARE, Scale
from ramet.tasks.targets import CLASSES, Classes, Predictions, Target

SHARES = frozenset((*classification.METRICS, *multilabel.METRICS, "ROC-AUC", "mrr"))
"""Metrics that are shares: from 0 to 1."""
Content = TypeVar("Content", GraphBlock, NodeGraph)
Scores: TypeAlias = dict[str, float | None]
"""Metrics by name; ``val`` and ``test`` are always among them. None without samples: a client that
has none has no score, and is not in the means."""


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


@runtime_checkable
class Task(Protocol):
    """Loss, batches and scores."""

    name: ClassVar[TaskName]

    @property
    def metric(self) -> str:
        """Name of the metric in ``val`` and ``test``, by which rounds are chosen."""
        ...

    @property
    def scale(self) -> Scale:
        """That of the metric; higher is better, unless a task says otherwise."""
        return SHARE if self.metric in SHARES else Scale()

    @property
    def metrics(self) -> Mapping[str, Metric]:
        """The metrics that can be chosen; empty if the task decides."""
        return {}

    @property
    def has_classes(self) -> bool:
        """Whether what ``labelled`` returns are classes."""
        return True

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

    def evaluate(self, model: nn.Module, samples: Any, device: torch.device) -> Scores:
        """``val``, ``test`` and possibly more, on the client's held-out samples."""
        ...

    def baseline(self, samples: Any) -> Baseline | None:  # noqa: ARG002
        """The client's numbers of samples, and the score of a constant; None if it has none."""
        return None

    def extra_scores(self, model: nn.Module, samples: Any, device: torch.device) -> Scores:  # noqa: ARG002
        """Further metrics, which need the ground truth of a simulation."""
        return {}


@dataclass(frozen=True)
class TargetTask(Task):
    """A task whose networks predict a target for each sample.

    Args:
        target: what is predicted, its loss and its metrics.
        metric: the name of one of the target's metrics, or that of ``measure``.
        measure: a metric of one's own.
        unit: that of the numbers that are predicted.
    """

    target: Target = CLASSES
    metric: str = ""
    measure: Metric | None = None
    unit: str = ""

    def __post_init__(self) -> None:
        if not self.metric:
            object.__setattr__(self, "metric", next(iter(self.target.metrics)))

    @property
    def metrics(self) -> Mapping[str, Metric]:
        return self.target.metrics

    @property
    def has_classes(self) -> bool:
        return self.target.has_classes

    @property
    def chosen(self) -> Metric | None:
        """The metric in ``val`` and ``test``; None if a subclass has one of its own."""
        metric = self.measure or self.metrics.get(self.metric)
        return metric and metric.in_unit(self.unit)

    @property
    def scale(self) -> Scale:
        return self.chosen.scale if self.chosen else Scale()

    def measured_by(self, metric: Metric) -> TargetTask:
        """The same task with another metric."""
        known = self.metrics.get(metric.name) is metric
        return replace(self, metric=metric.name, measure=None if known else metric)

    @abstractmethod
    def predictions(
        self, model: nn.Module, samples: Any, device: torch.device
    ) -> dict[str, Predictions]:
        """The predictions for the held-out samples of each part, ``val`` and ``test``."""

    def evaluate(self, model: nn.Module, samples: Any, device: torch.device) -> Scores:
        """The metric of each part; and the accuracy of classes on test, if it is another."""
        found = self.predictions(model, samples, device)
        metric = self.chosen or next(iter(self.metrics.values()))
        scores: Scores = {part: given.scored(metric) for part, given in found.items()}
        if self.has_classes and self.metric != "accuracy" and found["test"].labels.size:
            scores["accuracy"] = found["test"].scored(self.metrics["accuracy"])
        return scores

    @abstractmethod
    def parts(self, samples: Any) -> tuple[Tensor, Tensor, int]:
        """The labels of the training and of the test samples, and the number of outputs."""

    def weighted(self, graph: Content, split: Split) -> Content:
        """The graph or graphs with the weights of classes, if the target has any."""
        if not isinstance(self.target, Classes):
            return graph
        given = graph.labels[split.train], graph.classes, graph.class_weights
        weights = self.target.class_weights(*given)
        return graph if weights is None else replace(graph, label_scale=weights)

    def check_labels(self, labels: Tensor) -> None:
        """Refuse labels of another kind of target."""
        if self.has_classes == labels.is_floating_point():
            found = "numbers or several labels" if self.has_classes else "classes"
            raise RametError(
                f"this method is for {self.name}, but these clients' data have {found}. Choose "
                "another method or another --task; `ramet list methods NAME` shows a method's task."
            )

    def baseline(self, samples: Any) -> Baseline:
        train, test, outputs = self.parts(samples)
        constant = self.target.constant(train.numpy(), outputs)
        of_constant = np.tile(constant, (len(test), 1))
        always = Predictions(self.target, test.numpy(), of_constant, constant)
        score = always.scored(self.chosen) if len(train) and self.chosen else None
        return Baseline(train=len(train), test=len(test), constant=score)


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


def on_host(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.cpu()


def mismatch(task: TaskName, expected: type, data: ClientData[Any, Any]) -> RametError:
    """The error for data of another task."""
    return RametError(
        f"{task} needs {expected.__name__} data, but these clients hold "
        f"{type(data.content).__name__} data. Choose a method for their task; `ramet list methods "
        "NAME` shows a method's task."
    )
