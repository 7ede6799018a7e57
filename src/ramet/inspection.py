"""What the clients of a setting hold, and how far they are apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ramet.data import HeteroGraph, NodeGraph
from ramet.data.node_graph import attribute_homophily, edge_homophily
from ramet.data.portrait import divergences, portrait
from ramet.errors import RametError
from ramet.experiment import Experiment, checked_settings, default_data
from ramet.metrics import Holdings, KindOfLink, LinksOfRelations, Relation, TypeOfNode
from ramet.tasks import GraphSamples

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
    """As :func:`inspect` for a graph of several node types; None if the setting has none."""
    experiment = _experiment("local-hgn", setting, data, options)
    whole = experiment.overview()
    if whole is None or not isinstance(whole.content, HeteroGraph):
        return None
    graph, asked = whole.content, whole.split
    names = [relation.name for relation in graph.relations]

    def count(kinds: Tensor) -> list[int]:
        found: list[int] = torch.bincount(kinds, minlength=len(names)).tolist()
        return found

    def of(part: HeteroGraph) -> LinksOfRelations:
        links, learned = count(part.links.kinds), count(part.links.kinds[part.learned])
        return LinksOfRelations(
            dict(zip(names, links, strict=True)),
            [name for name, own in zip(names, learned, strict=True) if own],
        )

    links, val, test = (
        count(kinds) for kinds in (graph.links.kinds, asked.val.pairs.kinds, asked.test.pairs.kinds)
    )
    return RelationInspection(
        types={
            kind.name: TypeOfNode(kind.nodes, None if kind.features is None else kind.width)
            for kind in graph.types
        },
        relations={
            relation.name: Relation(
                head=graph.types[relation.head].name,
                tail=graph.types[relation.tail].name,
                links=links[place],
                val=val[place],
                test=test[place],
            )
            for place, relation in enumerate(graph.relations)
        },
        clients={client: of(experiment.samples(client).graph) for client in experiment.clients},
    )


def inspect_links(
    setting: str, data: Path | None = None, options: Mapping[str, str] | None = None
) -> LinkInspection | None:
    """As :func:`inspect` for a setting of one graph with kinds of links; None for others."""
    experiment = _experiment("fed-gcn", setting, data, options)
    whole = experiment.overview()
    if whole is None or not isinstance(whole.content, NodeGraph):
        return None
    graph = whole.content

    def of(part: NodeGraph) -> dict[str, int]:
        counts = torch.bincount(part.kinds, minlength=len(part.kind_names)).tolist()
        return {"nodes": part.nodes, **dict(zip(part.kind_names, counts, strict=True))}

    def kind(number: int) -> KindOfLink:
        links = (graph.kinds == number).nonzero().flatten()
        return KindOfLink(
            links.numel(), edge_homophily(graph, links), attribute_homophily(graph, links)
        )

    return LinkInspection(
        {name: kind(number) for number, name in enumerate(graph.kind_names)},
        {client: of(experiment.samples(client).graph) for client in experiment.clients},
    )


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
