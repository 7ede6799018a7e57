"""What the clients of a setting hold, and how far they are apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ramet.data import HeteroGraph, NodeGraph
from ramet.data.node_graph import attribute_homophily, edge_homophily
from ramet.data.own.schema import TaskName
from ramet.data.portrait import divergences, portrait
from ramet.errors import RametError
from ramet.experiment import Experiment, checked_settings, default_data
from ramet.metrics import Holdings, KindOfLink, LinksOfRelations, Relation, TypeOfNode
from ramet.tasks import GraphSamples, LinkSamples, NodeSamples

MOST_CLIENTS = 50


@dataclass(frozen=True)
class Inspection:
    """Each client's holdings, and the divergence of every pair, by kind of information."""

    clients: Mapping[str, Holdings]
    divergences: Mapping[str, NDArray[np.float64]]

    def facts(self) -> dict[str, Any]:
        return {
            "clients": {client: asdict(holdings) for client, holdings in self.clients.items()},
            "divergences": {kind: matrix.tolist() for kind, matrix in self.divergences.items()},
        }


@dataclass(frozen=True)
class LinkInspection:
    """Each kind of link in the whole graph, and how many of each kind the clients hold."""

    kinds: Mapping[str, KindOfLink]
    clients: Mapping[str, Mapping[str, int]]

    def facts(self) -> dict[str, Any]:
        return {
            "kinds": {name: asdict(kind) for name, kind in self.kinds.items()},
            "clients": {client: dict(links) for client, links in self.clients.items()},
        }


@dataclass(frozen=True)
class RelationInspection:
    """Node types and relations of the whole graph, and each client's links of each relation."""

    types: Mapping[str, TypeOfNode]
    relations: Mapping[str, Relation]
    clients: Mapping[str, LinksOfRelations]

    def facts(self) -> dict[str, Any]:
        return {
            "types": {name: asdict(kind) for name, kind in self.types.items()},
            "relations": {name: asdict(relation) for name, relation in self.relations.items()},
            "clients": {client: asdict(held) for client, held in self.clients.items()},
        }


def inspect_relations(
    setting: str, data: Path | None = None, options: Mapping[str, str] | None = None
) -> RelationInspection | None:
    """As :func:`inspect` for graphs of several node types; None if the setting has none."""
    experiment = _experiment("local-hgn", setting, data, options)
    seen: list[LinkSamples] = _everything(experiment, HeteroGraph, "link-prediction")
    if not seen:
        return None
    nodes, links, val, test = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for samples in seen:
        graph, asked = samples.graph, samples.asked
        nodes.update({kind.name: kind.nodes for kind in graph.types})
        links.update(_by_relation(graph, graph.links.kinds))
        val.update(_by_relation(graph, asked.val.pairs.kinds))
        test.update(_by_relation(graph, asked.test.pairs.kinds))

    def of(part: HeteroGraph) -> LinksOfRelations:
        learned = _by_relation(part, part.links.kinds[part.learned])
        return LinksOfRelations(
            _by_relation(part, part.links.kinds), [name for name, own in learned.items() if own]
        )

    return RelationInspection(
        types={
            kind.name: TypeOfNode(nodes[kind.name], None if kind.features is None else kind.width)
            for samples in seen
            for kind in samples.graph.types
        },
        relations={
            relation.name: Relation(
                head=samples.graph.types[relation.head].name,
                tail=samples.graph.types[relation.tail].name,
                links=links[relation.name],
                val=val[relation.name],
                test=test[relation.name],
            )
            for samples in seen
            for relation in samples.graph.relations
        },
        clients={client: of(experiment.samples(client).graph) for client in experiment.clients},
    )


def _by_relation(graph: HeteroGraph, kinds: Tensor) -> dict[str, int]:
    names = [relation.name for relation in graph.relations]
    counts: list[int] = torch.bincount(kinds, minlength=len(names)).tolist()
    return dict(zip(names, counts, strict=True))


def inspect_links(
    setting: str, data: Path | None = None, options: Mapping[str, str] | None = None
) -> LinkInspection | None:
    """As :func:`inspect` for clients with one graph each, links of kinds; None for others."""
    experiment = _experiment("fed-gcn", setting, data, options)
    seen: list[NodeSamples] = _everything(experiment, NodeGraph, "node-classification")
    if not seen:
        return None

    def of(part: NodeGraph) -> dict[str, int]:
        counts = torch.bincount(part.kinds, minlength=len(part.kind_names)).tolist()
        return {"nodes": part.nodes, **dict(zip(part.kind_names, counts, strict=True))}

    def kind(name: str) -> KindOfLink:
        count, edges, attributes = 0, 0.0, 0.0
        for graph in (samples.graph for samples in seen if name in samples.graph.kind_names):
            links = (graph.kinds == graph.kind_names.index(name)).nonzero().flatten()
            if links.numel():
                count += links.numel()
                edges += links.numel() * edge_homophily(graph, links)
                attributes += links.numel() * attribute_homophily(graph, links)
        if not count:
            return KindOfLink(0, nan, nan)
        return KindOfLink(count, edges / count, attributes / count)

    names = dict.fromkeys(name for samples in seen for name in samples.graph.kind_names)
    return LinkInspection(
        {name: kind(name) for name in names},
        {client: of(experiment.samples(client).graph) for client in experiment.clients},
    )


def _everything(experiment: Experiment, kind: type, task: TaskName) -> list[Any]:
    """Samples that are all there is together: those of the whole graph, or of all own sites.

    None if the clients hold graphs of another kind.
    """
    if experiment.own_graphs:
        if any(form.task != task for form in experiment.schemas.values()):
            return []
        return [experiment.samples(client) for client in experiment.clients]
    whole = experiment.overview()
    if whole is None or not isinstance(whole.content, kind):
        return []
    return [experiment.method.task.samples(whole)]


def inspect(
    setting: str, data: Path | None = None, options: Mapping[str, str] | None = None
) -> Inspection:
    """Look at all graphs of all clients of a setting."""
    experiment = _experiment("local", setting, data, options)  # needs no structure encodings
    if len(experiment.clients) > MOST_CLIENTS:
        raise RametError(
            f"{setting} has {len(experiment.clients)} clients, too many to compare all pairs. "
            f"Take at most {MOST_CLIENTS}."
        )
    holdings, portraits = {}, []
    for client in experiment.clients:
        samples: GraphSamples = experiment.samples(client)
        block, split = samples.block, samples.split
        graphs = torch.cat([split.train, split.val, split.test])
        nodes = block.node_starts.diff()[graphs]
        links = block.link_starts.diff()[graphs]
        holdings[client] = Holdings(
            graphs=graphs.numel(),
            nodes=float(nodes.double().mean()),
            links=float(links.double().mean()) / 2,
            features=block.feature_width,
            classes=torch.bincount(block.labels[graphs], minlength=block.classes).tolist(),
        )
        portraits.append(portrait(block, graphs))
    return Inspection(
        holdings,
        {
            "features": divergences([one.feature for one in portraits]),
            "structure": divergences([one.structure for one in portraits]),
        },
    )


def _experiment(
    method: str, setting: str, data: Path | None, options: Mapping[str, str] | None
) -> Experiment:
    """One whose data can be looked at; the method says how they are read."""
    return Experiment(
        checked_settings(
            method=method,
            setting=setting,
            data=(data or default_data()).absolute(),
            options=dict(options or {}),
        )
    )
