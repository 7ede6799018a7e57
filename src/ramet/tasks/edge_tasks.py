"""The task for edges, each with a class."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import ClassVar

from pydantic import NonNegativeFloat

from ramet.data import StructureEncoding
from ramet.data.graphs.edge_graph import EdgeGraph
from ramet.data.graphs.node_graph import NodeGraph
from ramet.data.own.schema import Schema, TaskName
from ramet.models.shape import EdgeShape
from ramet.tasks.node_tasks import NodeSamples, NodeTask
from ramet.tasks.targets import rare_classes


@dataclass(frozen=True)
class EdgeClassification(NodeTask):
    """The task for edges with one class each; messages pass over all links of the graph."""

    name: ClassVar[TaskName] = "edge-classification"
    graph: ClassVar[type[NodeGraph]] = EdgeGraph

    def plain_shape(self, inputs: StructureEncoding) -> EdgeShape:  # noqa: ARG002
        return EdgeShape(0, 0).plain()

    def shape(self, samples: NodeSamples) -> EdgeShape:
        graph = samples.graph
        assert isinstance(graph, EdgeGraph)
        of_nodes, asked = asdict(super().shape(samples)), graph.asked
        return EdgeShape(**of_nodes, asked_width=asked.width, ordered=asked.ordered)

    def declared_shape(self, schema: Schema, inputs: StructureEncoding) -> EdgeShape:
        of_nodes = asdict(super().declared_shape(schema, inputs))
        width = len(schema.links.get(schema.labelled, ()))
        ordered = schema.labelled in schema.directed
        return EdgeShape(**of_nodes, asked_width=width, ordered=ordered)

    def weight(self, samples: NodeSamples) -> int:
        """The number of edges with a class."""
        return len(samples.graph.labels)


def edge_classification(weights: str = "", focal: NonNegativeFloat = 0.0) -> EdgeClassification:
    """``weights`` of classes, as 1:30, or balanced; ``focal``: the exponent of focal loss."""
    return EdgeClassification(rare_classes(weights, focal))
