"""Tasks for graphs, each with a class, numbers or several labels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from pydantic import NonNegativeFloat
from torch import Tensor, nn

from ramet.data import Batch, ClientData, GraphBlock, Split, StructureEncoding
from ramet.data.graphs.copies import copy_on
from ramet.data.own.schema import Schema, TaskName, check_task
from ramet.models.shape import GraphShape
from ramet.tasks.base import TargetTask, mismatch, on_host
from ramet.tasks.targets import (
    NUMBERS,
    SEVERAL_LABELS,
    Loss,
    Numbers,
    Predictions,
    Target,
    rare_classes,
)

_EVALUATION_BATCH_SIZE = 64


@dataclass(frozen=True)
class GraphSamples:
    """A client's graphs, split into train, validation and test."""

    block: GraphBlock
    split: Split

    @property
    def manifest(self) -> dict[str, Any]:
        """The split, and a hash of the labels it was made from."""
        labels = hashlib.sha256(self.block.labels.numpy().tobytes()).hexdigest()
        return {"graphs": self.block.graphs, "labels_sha256": labels, **self.split.manifest}

    def to(self, device: torch.device) -> GraphSamples:
        """The same samples with graphs on a device; they are copied once, and kept."""
        here = self.block.labels.device
        return copy_on(device, self, here, lambda: replace(self, block=self.block.to(device)))

    @cached_property
    def held_out(self) -> list[Batch]:
        """Batches of the validation graphs, then the test graphs."""
        both = torch.cat([self.split.val, self.split.test])
        return [*self.block.cuts(both, _EVALUATION_BATCH_SIZE)]


@dataclass(frozen=True)
class GraphTask(TargetTask):
    """A task for graphs."""

    def samples(self, data: ClientData[Any, Any]) -> GraphSamples:
        if not isinstance(data.content, GraphBlock):
            raise mismatch(self.name, GraphBlock, data)
        self.check_labels(data.content.labels)
        return GraphSamples(self.weighted(data.content, data.split), data.split)

    def plain_shape(self, inputs: StructureEncoding) -> GraphShape:
        return GraphShape(0, inputs.width, 0).plain()

    def shape(self, samples: GraphSamples) -> GraphShape:
        block, values = samples.block, samples.block.link_values
        return GraphShape(
            features=block.feature_width,
            structure=block.structure.size(1),
            classes=block.classes,
            nodes=block.aligned,
            link_width=values.width,
            directed=values.directed,
        )

    def declared_shape(self, schema: Schema, inputs: StructureEncoding) -> GraphShape:
        check_task(schema, self.name)
        links = schema.link_width, bool(schema.directed)
        return GraphShape(schema.width, inputs.width, len(schema.classes), *links)

    def weight(self, samples: GraphSamples) -> int:
        """The number of training graphs."""
        return samples.split.train.numel()

    def batches(
        self, samples: GraphSamples, size: int, generator: torch.Generator
    ) -> Iterator[Batch]:
        """All training graphs once, shuffled."""
        train = samples.split.train
        shuffled = train[torch.randperm(train.numel(), generator=generator)]
        return samples.block.cuts(shuffled, size)

    def loss(self, output: Tensor, batch: Batch) -> Tensor:
        return self.target.loss(output, batch.labels, batch.label_scale)

    def labelled(self, batch: Batch) -> tuple[Tensor, Tensor]:
        """All graphs."""
        return torch.arange(batch.graphs, device=batch.labels.device), batch.labels

    @torch.inference_mode()
    def predictions(
        self, model: nn.Module, samples: GraphSamples, device: torch.device
    ) -> dict[str, Predictions]:
        model.eval()
        samples = samples.to(device)
        outputs = torch.cat([model(batch) for batch in samples.held_out]).cpu()
        labels = torch.cat([batch.labels for batch in samples.held_out]).cpu()
        block, first = samples.block, samples.split.val.numel()
        known = block.labels[samples.split.train], on_host(block.label_scale)
        return {
            "val": Predictions.of(self.target, outputs[:first], labels[:first], *known),
            "test": Predictions.of(self.target, outputs[first:], labels[first:], *known),
        }

    def parts(self, samples: GraphSamples) -> tuple[Tensor, Tensor, int]:
        block, split = samples.block, samples.split
        return block.labels[split.train], block.labels[split.test], block.classes


@dataclass(frozen=True)
class GraphClassification(GraphTask):
    """The task for graphs with one class each."""

    name: ClassVar[TaskName] = "graph-classification"


@dataclass(frozen=True)
class GraphRegression(GraphTask):
    """The task for graphs with one or several numbers each."""

    name: ClassVar[TaskName] = "graph-regression"
    target: Target = NUMBERS


@dataclass(frozen=True)
class GraphMultilabel(GraphTask):
    """The task for graphs with several labels each."""

    name: ClassVar[TaskName] = "graph-multilabel"
    target: Target = SEVERAL_LABELS


def graph_classification(weights: str = "", focal: NonNegativeFloat = 0.0) -> GraphClassification:
    """``weights`` of classes, as 1:30, or balanced; ``focal``: the exponent of focal loss."""
    return GraphClassification(rare_classes(weights, focal))


def graph_regression(loss: Loss = "mse") -> GraphRegression:
    """``loss``: squared, absolute or Huber's error, in units of the deviation over all sites."""
    return GraphRegression(Numbers(loss))


def graph_multilabel() -> GraphMultilabel:
    """The task without options."""
    return GraphMultilabel()
