"""What is predicted: means and deviations of numbers, and shares of classes, if sites agree."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import torch
from torch import Tensor

from ramet.data.graphs.hetero_graph import HeteroGraph
from ramet.data.own.building import Graph
from ramet.data.own.columns import ColumnValues
from ramet.data.own.description import Description
from ramet.data.own.preparation import Preparation
from ramet.data.own.preparer import Preparer
from ramet.data.own.schema import CLASSES, TARGETS

_TRAIN = 0


def add_targets(
    preparer: Preparer, graph: Graph, description: Description, parts: Tensor | None
) -> None:
    """Let the preparer sum up the numbers; those of training samples only, if parts are given."""
    if not description.targets or isinstance(graph, HeteroGraph):
        return
    labels = graph.labels if parts is None else graph.labels[parts == _TRAIN]
    numbers = labels.double().numpy()
    values = {name: numbers[:, column] for column, name in enumerate(description.targets)}
    preparer.columns[TARGETS] = ColumnValues(description.targets, values, len(labels))


def add_classes(
    preparer: Preparer, graph: Graph, description: Description, parts: Tensor | None, stubs: int
) -> None:
    """Let the preparer count the classes, of the same samples as numbers.

    If a class is too rare at the site, it tells nothing about any.
    """
    classes = description.counted_classes
    if not classes or isinstance(graph, HeteroGraph):
        return
    labels = graph.labels[: len(graph.labels) - stubs] if parts is None else graph.labels
    labels = labels if parts is None else labels[parts == _TRAIN]
    counts = labels.bincount(minlength=len(classes))
    told = labels.numpy() if int(counts.min()) >= preparer.smallest else np.empty(0, np.int64)
    values = {name: (told == number) * 1.0 for number, name in enumerate(classes)}
    preparer.columns[CLASSES] = ColumnValues(classes, values, len(told))


def balanced(graph: Graph, preparation: Preparation) -> Graph:
    """The graph with weights of classes by the agreed shares, if all classes have one."""
    shares = [one.mean for one in preparation.types.get(CLASSES, {}).values()]
    if not shares or min(shares) <= 0 or isinstance(graph, HeteroGraph):
        return graph
    return replace(graph, class_weights=1 / (len(shares) * torch.tensor(shares)))


def scaled(graph: Graph, preparation: Preparation) -> Graph:
    """The graph with the agreed means and deviations of what is predicted, if it is numbers."""
    scale = agreed_scale(preparation)
    if scale is None or isinstance(graph, HeteroGraph):
        return graph
    return replace(graph, label_scale=scale)


def agreed_scale(preparation: Preparation) -> Tensor | None:  # [2, outputs]
    """The means and deviations of what is predicted, if it is numbers."""
    targets = preparation.types.get(TARGETS)
    if not targets:
        return None
    rows = [[one.mean for one in targets.values()], [one.scale for one in targets.values()]]
    return torch.tensor(rows)
