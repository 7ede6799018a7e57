"""What is learned: loss, batches and scores of each kind of task."""

from ramet.data import StructureEncoding
from ramet.tasks.graph_classification import GraphClassification, GraphSamples, Scores

__all__ = ["GraphClassification", "GraphSamples", "Scores", "StructureEncoding"]
