"""Tell the class of a node: cross-entropy over the whole graph, accuracy on held-out nodes."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data import ClientData, NodeGraph, Split, StructureEncoding
from ramet.data.graphs.neighbour_sampling import around
from ramet.data.own import Schema, TaskName, check_task
from ramet.models import FindsLinkKinds, NodeShape
from ramet.tasks.base import Scores, mismatch


@dataclass(frozen=True)
class NodeSamples:
    """One client's graph and which of its nodes are for training, validation and test."""

    graph: NodeGraph
    split: Split
    judged: NodeGraph | None = None  # where validation and test nodes are, if elsewhere

    @property
    def manifest(self) -> dict[str, Any]:
        """The split and a hash of the labels it was made from."""
        labels = hashlib.sha256(self.graph.labels.numpy().tobytes()).hexdigest()
        counts = {"nodes": self.graph.nodes, "links": self.graph.links}
        return {**counts, "labels_sha256": labels, **self.split.manifest}

    @cached_property
    def learnable(self) -> NodeGraph:
        """The graph with its training nodes marked."""
        return self.graph.with_trained(self.split.train)


@dataclass(frozen=True)
class NodeClassification:
    """Training and evaluation for nodes with one label each.

    Args:
        sample: neighbours to draw per step away from a batch's nodes; none trains on the whole
            graph at once. Judged is always the whole graph.
    """

    name: ClassVar[TaskName] = "node-classification"
    metric: ClassVar[str] = "accuracy"
    sample: tuple[int, ...] = ()

    def samples(self, held: ClientData[Any, Any]) -> NodeSamples:
        if not isinstance(held.content, NodeGraph):
            raise mismatch(self.name, NodeGraph, held)
        return NodeSamples(held.content, held.split, held.judged)

    def plain_shape(self, inputs: StructureEncoding) -> NodeShape:  # noqa: ARG002
        return NodeShape(0, 0).plain()

    def shape(self, samples: NodeSamples) -> NodeShape:
        return NodeShape(samples.graph.features.size(1), samples.graph.classes)

    def declared_shape(self, schema: Schema, inputs: StructureEncoding) -> NodeShape:  # noqa: ARG002
        check_task(schema, self.name)
        return NodeShape(schema.width, len(schema.classes))

    def weight(self, samples: NodeSamples) -> int:
        """How much this client's reply counts: its number of nodes (eq. 2 of FedLIT)."""
        return samples.graph.nodes

    def batches(
        self,
        samples: NodeSamples,
        size: int,
        order: torch.Generator,
    ) -> Iterator[NodeGraph]:
        """The whole graph, once; or batches of its training nodes with drawn neighbours."""
        if not self.sample:
            yield samples.learnable
            return
        yield from around(samples.graph, samples.split.train, self.sample, size, order)

    def loss(self, model: nn.Module, graph: NodeGraph) -> Tensor:
        """Cross-entropy of the training nodes; a client without any learns nothing."""
        logits, chosen = model(graph), graph.trained
        if not bool(chosen.any()):
            nothing: Tensor = logits.sum() * 0.0
            return nothing
        return functional.cross_entropy(logits[chosen], graph.labels[chosen])

    @torch.inference_mode()
    def evaluate(self, model: nn.Module, samples: NodeSamples, device: torch.device) -> Scores:
        """Accuracy on the validation and the test nodes."""
        model.eval()
        graph = samples.judged or samples.graph
        right = (model(graph.to(device)).argmax(dim=1).cpu() == graph.labels).double()
        return {
            name: float(right[chosen].mean()) if chosen.numel() else 0.0
            for name, chosen in (("val", samples.split.val), ("test", samples.split.test))
        }

    @torch.inference_mode()
    def extra_scores(self, model: nn.Module, samples: NodeSamples, device: torch.device) -> Scores:
        """How well the kinds of links that the model found agree with the true ones (NMI)."""
        truth = samples.graph.kinds
        if not (isinstance(model, FindsLinkKinds) and model.cluster) or not truth.any():
            return {}
        from sklearn.metrics import normalized_mutual_info_score  # takes a second to import

        model.eval()
        kinds = model.link_kinds(samples.graph.to(device)).cpu()
        return {"nmi": float(normalized_mutual_info_score(truth.numpy(), kinds.numpy()))}
