"""Tasks for nodes, each with a class, numbers or several labels."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, ClassVar

import torch
from pydantic import NonNegativeFloat, NonNegativeInt, PositiveInt
from torch import Tensor, nn

from ramet.data import ClientData, NodeGraph, Split, StructureEncoding
from ramet.data.graphs.copies import copy_on
from ramet.data.graphs.neighbour_sampling import sample_batches
from ramet.data.own.schema import Schema, TaskName, check_task, level_of
from ramet.errors import RametError
from ramet.models.link_kinds import FindsLinkKinds
from ramet.models.shape import NodeShape
from ramet.tasks.base import Scores, TargetTask, mismatch
from ramet.tasks.targets import (
    NUMBERS,
    SEVERAL_LABELS,
    Loss,
    Numbers,
    Predictions,
    Target,
    rare_classes,
)


@dataclass(frozen=True)
class NodeSamples:
    """A client's graph, with its nodes split into train, validation and test."""

    graph: NodeGraph
    split: Split
    evaluated_on: Mapping[str, NodeGraph] | None = None
    """The graphs of the validation and test nodes, if others."""

    def graph_of(self, part: str) -> NodeGraph:
        """The graph on which a part is evaluated."""
        return (self.evaluated_on or {}).get(part, self.graph)

    @property
    def evaluated_elsewhere(self) -> bool:
        """Whether validation and test nodes are not the client's own."""
        graphs = (self.evaluated_on or {}).values()
        return any(graph.nodes != self.graph.nodes for graph in graphs)

    @property
    def manifest(self) -> dict[str, Any]:
        """The split, and a hash of the labels it was made from."""
        labels = hashlib.sha256(self.graph.labels.numpy().tobytes()).hexdigest()
        counts = {"nodes": self.graph.nodes, "links": self.graph.links}
        return {**counts, "labels_sha256": labels, **self.split.manifest}

    def to(self, device: torch.device) -> NodeSamples:
        """The same samples with graphs on a device; they are copied once, and kept."""
        return copy_on(device, self, self.graph.labels.device, lambda: self._moved(device))

    def _moved(self, device: torch.device) -> NodeSamples:
        given = self.evaluated_on
        held_out = given and {part: graph.to(device) for part, graph in given.items()}
        moved = replace(self, graph=self.graph.to(device), evaluated_on=held_out)
        moved.__dict__["on_host"] = self
        return moved

    @cached_property
    def on_host(self) -> NodeSamples:
        """The samples from which these were copied; neighbours are sampled there."""
        return self

    @cached_property
    def training_graph(self) -> NodeGraph:
        """The graph with its training nodes marked."""
        return self.graph.with_trained(self.split.train)


@dataclass(frozen=True)
class NodeTask(TargetTask):
    """A task for nodes.

    Args:
        sample: number of neighbours to sample per hop; empty trains on the whole graph at once.
            Evaluation always uses the whole graph.
    """

    sample: tuple[int, ...] = ()

    graph: ClassVar[type[NodeGraph]] = NodeGraph
    """What a client's data have to be."""

    def samples(self, data: ClientData[Any, Any]) -> NodeSamples:
        if type(data.content) is not self.graph:
            raise mismatch(self.name, self.graph, data)
        self.check_labels(data.content.labels)
        graph = self.weighted(data.content, data.split)
        return NodeSamples(graph, data.split, data.evaluated_on)

    def plain_shape(self, inputs: StructureEncoding) -> NodeShape:  # noqa: ARG002
        return NodeShape(0, 0).plain()

    def shape(self, samples: NodeSamples) -> NodeShape:
        graph, values = samples.graph, samples.graph.link_values
        return NodeShape(
            features=graph.features.size(1),
            classes=graph.classes,
            outside=graph.outside.rows if graph.outside else 0,
            link_width=values.width,
            directed=values.directed,
        )

    def declared_shape(self, schema: Schema, inputs: StructureEncoding) -> NodeShape:  # noqa: ARG002
        check_task(schema, self.name)
        links = schema.link_width, bool(schema.directed)
        return NodeShape(schema.width, len(schema.classes), *links)

    def weight(self, samples: NodeSamples) -> int:
        """The number of nodes, labelled or not (eq. 2 of FedLIT)."""
        return samples.graph.nodes

    def batches(
        self,
        samples: NodeSamples,
        size: int,
        generator: torch.Generator,
    ) -> Iterator[NodeGraph]:
        """The whole graph once, or batches of training nodes with sampled neighbours."""
        if not self.sample:
            yield samples.training_graph
            return
        graph, train = samples.on_host.graph, samples.split.train
        yield from sample_batches(graph, train, self.sample, size, generator)

    def loss(self, output: Tensor, graph: NodeGraph) -> Tensor:
        """The loss of the training nodes; 0 without any."""
        if len(output) != len(graph.labels):
            raise RametError(
                f"the network returns {len(output)} rows of outputs for {len(graph.labels)} "
                f"labels. {self.name} needs a row for each {level_of(self.name)}."
            )
        if not graph.trained_nodes.numel():
            return output.sum() * 0.0
        chosen = output[graph.trained_nodes]
        return self.target.loss(chosen, graph.trained_labels, graph.label_scale)

    def labelled(self, graph: NodeGraph) -> tuple[Tensor, Tensor]:
        """The training nodes."""
        return graph.trained_nodes, graph.trained_labels

    @torch.inference_mode()
    def predictions(
        self, model: nn.Module, samples: NodeSamples, device: torch.device
    ) -> dict[str, Predictions]:
        model.eval()
        split, labelled = samples.split, samples.on_host
        known = labelled.graph.labels[split.train], labelled.graph.label_scale
        found, outputs, before = {}, torch.empty(0), None
        for part, nodes in (("val", split.val), ("test", split.test)):
            graph = labelled.graph_of(part)
            if graph is not before:
                outputs, before = model(graph.to(device)).cpu(), graph
            found[part] = Predictions.of(self.target, outputs[nodes], graph.labels[nodes], *known)
        return found

    def parts(self, samples: NodeSamples) -> tuple[Tensor, Tensor, int]:
        graph, split = samples.graph, samples.split
        test = samples.graph_of("test").labels[split.test]
        return graph.labels[split.train], test, graph.classes

    @torch.inference_mode()
    def extra_scores(self, model: nn.Module, samples: NodeSamples, device: torch.device) -> Scores:
        """Agreement (NMI) between the kinds of links that the model found and the true ones."""
        truth = samples.graph.kinds
        if not (isinstance(model, FindsLinkKinds) and model.cluster) or not truth.any():
            return {}
        from sklearn.metrics import normalized_mutual_info_score  # takes a second to import

        model.eval()
        kinds = model.link_kinds(samples.graph.to(device)).cpu()
        return {"nmi": float(normalized_mutual_info_score(truth.numpy(), kinds.numpy()))}


@dataclass(frozen=True)
class NodeClassification(NodeTask):
    """The task for nodes with one class each."""

    name: ClassVar[TaskName] = "node-classification"


@dataclass(frozen=True)
class NodeRegression(NodeTask):
    """The task for nodes with one or several numbers each."""

    name: ClassVar[TaskName] = "node-regression"
    target: Target = NUMBERS


@dataclass(frozen=True)
class NodeMultilabel(NodeTask):
    """The task for nodes with several labels each."""

    name: ClassVar[TaskName] = "node-multilabel"
    target: Target = SEVERAL_LABELS


def node_classification(
    sample: NonNegativeInt = 0,
    layers: PositiveInt = 2,
    weights: str = "",
    focal: NonNegativeFloat = 0.0,
) -> NodeClassification:
    """``sample``: number of neighbours to sample for each of the network's ``layers``; 0: all.

    ``weights`` of classes, as 1:30, or balanced; ``focal``: the exponent of focal loss.
    """
    return NodeClassification(rare_classes(weights, focal), sample=_per_hop(sample, layers))


def node_regression(
    sample: NonNegativeInt = 0, layers: PositiveInt = 2, loss: Loss = "mse"
) -> NodeRegression:
    """``loss``: squared, absolute or Huber's error, in units of the deviation over all sites."""
    return NodeRegression(Numbers(loss), sample=_per_hop(sample, layers))


def node_multilabel(sample: NonNegativeInt = 0, layers: PositiveInt = 2) -> NodeMultilabel:
    """``sample`` as for ``node-classification``."""
    return NodeMultilabel(sample=_per_hop(sample, layers))


def _per_hop(sample: int, layers: int) -> tuple[int, ...]:
    return (sample,) * layers if sample else ()
