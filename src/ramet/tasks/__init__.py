"""Tasks: loss, batches and scores of graph classification, node classification, link prediction."""

from ramet.data import StructureEncoding
from ramet.tasks.base import Samples, Scores, Shape, Task
from ramet.tasks.graph_classification import GraphClassification, GraphSamples
from ramet.tasks.link_prediction import LinkPrediction, LinkSamples
from ramet.tasks.node_classification import NodeClassification, NodeSamples

__all__ = [
    "GraphClassification",
    "GraphSamples",
    "LinkPrediction",
    "LinkSamples",
    "NodeClassification",
    "NodeSamples",
    "Samples",
    "Scores",
    "Shape",
    "StructureEncoding",
    "Task",
]
