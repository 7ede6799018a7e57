"""Tasks: what is predicted for graphs, nodes and links, with loss, batches and scores."""

from collections.abc import Callable

from ramet.data import StructureEncoding
from ramet.data.own.schema import TaskName
from ramet.metrics import classification, multilabel, regression
from ramet.tasks.base import SHARES, Samples, Scores, Shape, TargetTask, Task
from ramet.tasks.edge_tasks import EdgeClassification, edge_classification
from ramet.tasks.graph_tasks import (
    GraphClassification,
    GraphMultilabel,
    GraphRegression,
    GraphSamples,
    graph_classification,
    graph_multilabel,
    graph_regression,
)
from ramet.tasks.link_prediction import (
    LINK_METRICS,
    LinkPrediction,
    LinkSamples,
    link_prediction,
)
from ramet.tasks.node_tasks import (
    NodeClassification,
    NodeMultilabel,
    NodeRegression,
    NodeSamples,
    node_classification,
    node_multilabel,
    node_regression,
)
from ramet.tasks.targets import Classes, Numbers, Predictions, SeveralLabels, Target

TASKS: dict[str, Callable[..., Task]] = {
    "graph-classification": graph_classification,
    "graph-regression": graph_regression,
    "graph-multilabel": graph_multilabel,
    "node-classification": node_classification,
    "node-regression": node_regression,
    "node-multilabel": node_multilabel,
    "edge-classification": edge_classification,
    "link-prediction": link_prediction,
}
TASK_METRICS: dict[TaskName, tuple[str, ...]] = {
    **dict.fromkeys(
        ("graph-classification", "node-classification", "edge-classification"),
        (*classification.METRICS,),
    ),
    **dict.fromkeys(("graph-regression", "node-regression"), (*regression.METRICS,)),
    **dict.fromkeys(("graph-multilabel", "node-multilabel"), (*multilabel.METRICS,)),
    "link-prediction": LINK_METRICS,
}
"""The metrics by which rounds can be chosen; the first is the default."""

__all__ = [
    "SHARES",
    "TASKS",
    "TASK_METRICS",
    "Classes",
    "EdgeClassification",
    "GraphClassification",
    "GraphMultilabel",
    "GraphRegression",
    "GraphSamples",
    "LinkPrediction",
    "LinkSamples",
    "NodeClassification",
    "NodeMultilabel",
    "NodeRegression",
    "NodeSamples",
    "Numbers",
    "Predictions",
    "Samples",
    "Scores",
    "SeveralLabels",
    "Shape",
    "StructureEncoding",
    "Target",
    "TargetTask",
    "Task",
    "TaskName",
    "node_classification",
]
