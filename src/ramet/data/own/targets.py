"""Numbers that are predicted: their means and deviations, on which sites agree."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from ramet.data.graphs.hetero_graph import HeteroGraph
from ramet.data.own.building import Graph
from ramet.data.own.columns import ColumnValues
from ramet.data.own.description import Description
from ramet.data.own.preparation import Preparation
from ramet.data.own.preparer import Preparer
from ramet.data.own.schema import TARGETS

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
