"""Tasks: loss, batches and scores of graph classification, node classification, link prediction."""

from collections.abc import Callable

from ramet.data import StructureEncoding
from ramet.data.own import TaskName
from ramet.tasks.base import Samples, Scores, Shape, Task
from ramet.tasks.graph_classification import GraphClassification, GraphSamples
from ramet.tasks.link_prediction import LinkPrediction, LinkSamples
from ramet.tasks.node_classification import (
    NodeClassification,
    NodeSamples,
    node_classification,
)

TASKS: dict[TaskName, Callable[..., Task]] = {
    "graph-classification": GraphClassification,
    "node-classification": node_classification,
    "link-prediction": LinkPrediction,
}

__all__ = [
    "TASKS",
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
    "TaskName",
]
