"""A model's input: graphs as in training, with the ids of their nodes and warnings."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from ramet.data import GraphBlock, HeteroGraph, NodeGraph
from ramet.data.graphs.edge_graph import EdgeGraph
from ramet.data.own.new_data import read_new_data
from ramet.data.own.ranges import novelties
from ramet.data.own.site import Site
from ramet.data.own.tables import Ids
from ramet.data.own.targets import scaled
from ramet.prediction.trained import Trained
from ramet.tasks import Target, TargetTask
from ramet.tasks.targets import CLASSES


@dataclass(frozen=True)
class Input:
    """What a client's model takes, and how to name its rows and columns.

    ``graph`` holds the tensors: nodes' features as prepared in training, links and structure
    encodings. The order of ids is that of the graph.
    """

    client: str
    graph: GraphBlock | NodeGraph | HeteroGraph
    ids: Mapping[str, Ids]
    """The ids of nodes, by type."""
    sample_ids: Ids | None
    """The ids of graphs or edges, if these are classified and have ids."""
    classes: tuple[str, ...]
    """The names of classes, or of the numbers or labels."""
    features: Mapping[str, tuple[str, ...]]
    """The names of features, by node type; empty for built-in data."""
    target: Target = CLASSES
    """What is predicted."""
    unit: str = ""
    """That of the numbers that are predicted."""
    new: Mapping[str, int] = field(default_factory=dict)
    """By type, how many nodes are predicted, if those after them are context."""
    warnings: tuple[str, ...] = ()
    """How the data differs from what the model was trained on."""
    notes: tuple[str, ...] = ()
    """How many rows are new, and which were joined, added or dropped."""

    @property
    def row_ids(self) -> dict[str, Ids]:
        """Columns that say what is classified: ids of graphs, of nodes of the only type, or of
        edges, which have ``source`` and ``target``, too."""
        (nodes,) = self.ids.values()
        if not isinstance(self.graph, EdgeGraph):
            return {"id": nodes if self.sample_ids is None else self.sample_ids}
        named = {} if self.sample_ids is None else {"id": self.sample_ids}
        source, target = self.graph.asked.ends.numpy()
        return {**named, "source": nodes[source], "target": nodes[target]}


def read_input(trained: Trained, client: str, path: Path, context: Path | None = None) -> Input:
    """Read a site's new data, prepared as in the client's training.

    Classes and splits are not needed, and are ignored. ``context`` is the TOML file of an earlier
    period; then ``path`` may be a folder.
    """
    schema, preparation = trained.schema(client), trained.preparation
    site = read_new_data(path, schema, preparation, context)
    return Input(
        client=client,
        graph=scaled(_with_structure(site, trained), preparation),
        ids=site.ids,
        sample_ids=site.sample_ids,
        classes=schema.classes,
        features=preparation.expanded(schema).nodes,
        target=_target(trained),
        unit=_unit(trained),
        new=site.new,
        warnings=tuple(novelties(site, trained.ranges(client), preparation)),
        notes=site.remarks,
    )


def client_input(trained: Trained, client: str) -> Input:
    """The data that a client was trained on; nodes and graphs of built-in data are numbered."""
    experiment = trained.experiment
    if experiment.setting.user_defined:
        return read_input(trained, client, trained.data_of(client))
    graph = experiment.setting.client_data(client, experiment.reading).content
    if isinstance(graph, HeteroGraph):
        ids = {kind.name: np.arange(kind.nodes) for kind in graph.types}
        return Input(client, graph, ids, None, (), {})
    return Input(
        client=client,
        graph=graph,
        ids={"node": np.arange(graph.nodes)},
        sample_ids=None if isinstance(graph, NodeGraph) else np.arange(graph.graphs),
        classes=tuple(map(str, range(graph.classes))),
        features={},
        target=_target(trained),
        unit=_unit(trained),
    )


def _target(trained: Trained) -> Target:
    task = trained.experiment.method.task
    return task.target if isinstance(task, TargetTask) else CLASSES


def _unit(trained: Trained) -> str:
    task = trained.experiment.scored_method.task
    return task.unit if isinstance(task, TargetTask) else ""


def _with_structure(site: Site, trained: Trained) -> GraphBlock | NodeGraph | HeteroGraph:
    graph = site.graph
    if isinstance(graph, GraphBlock):
        return trained.experiment.method.inputs.added_to(graph)
    return graph
