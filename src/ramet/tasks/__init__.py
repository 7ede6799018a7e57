"""Tasks: loss, batches and scores of graph classification, node classification, link prediction."""

from collections.abc import Callable
from math import inf

from ramet.data import StructureEncoding
from ramet.data.own.schema import TaskName
from ramet.metrics.classification import METRICS
from ramet.tasks.base import Predictions, Samples, Scores, Shape, Task
from ramet.tasks.graph_classification import (
    GraphClassification,
    GraphSamples,
    graph_classification,
)
from ramet.tasks.link_prediction import (
    LINK_METRICS,
    LinkPrediction,
    LinkSamples,
    link_prediction,
)
from ramet.tasks.node_classification import (
    NodeClassification,
    NodeSamples,
    node_classification,
)

TASKS: dict[TaskName, Callable[..., Task]] = {
    "graph-classification": graph_classification,
    "node-classification": node_classification,
    "link-prediction": link_prediction,
}
TASK_METRICS: dict[TaskName, tuple[str, ...]] = {
    "graph-classification": tuple(METRICS),
    "node-classification": tuple(METRICS),
    "link-prediction": LINK_METRICS,
}
"""The metrics by which rounds can be chosen; the first is the default."""
SHARES = frozenset(name for names in TASK_METRICS.values() for name in names)
"""Metrics that are shares: from 0 to 1."""


def score_range(task: Task) -> tuple[float, float]:
    """Where ``val`` and ``test`` lie: what the task says, 0 to 1 for our metrics, or anywhere."""
    declared: tuple[float, float] | None = getattr(task, "score_range", None)
    return declared or ((0.0, 1.0) if task.metric in SHARES else (-inf, inf))


__all__ = [
    "SHARES",
    "TASKS",
    "TASK_METRICS",
    "GraphClassification",
    "GraphSamples",
    "LinkPrediction",
    "LinkSamples",
    "NodeClassification",
    "NodeSamples",
    "Predictions",
    "Samples",
    "Scores",
    "Shape",
    "StructureEncoding",
    "Task",
    "TaskName",
    "score_range",
]
