"""Summaries of the clients' data in a setting, and how much the clients differ."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from math import nan
from typing import Any, TypeAlias

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from ramet.data import ClientData, GraphBlock, HeteroGraph, NodeGraph
from ramet.data.graphs.node_graph import attribute_homophily, edge_homophily
from ramet.data.graphs.portrait import divergences, portrait
from ramet.data.splits import counts_of
from ramet.errors import RametError
from ramet.partition.base import Reading, Setting
from ramet.partition.checked import data_of
from ramet.partition.differences import class_counts, node_differences, relation_differences

MAX_CLIENTS = 50


@dataclass(frozen=True)
class ClientSummary:
    """A client with many graphs. Nodes and links are means per graph; a link counts once."""

    graphs: int
    nodes: float
    links: float
    features: int
    classes: Sequence[int]  # graphs of each class


@dataclass(frozen=True)
class LinkKindSummary:
    """Number of links of a kind, and the homophily of their labels and features."""

    links: int
    edge_homophily: float
    attribute_homophily: float


@dataclass(frozen=True)
class NodeTypeSummary:
    """Number of nodes of a type; nodes without features have a learned embedding."""

    nodes: int
    features: int | None


@dataclass(frozen=True)
class RelationSummary:
    """A relation's training links from one node type to another, and its held-out pairs."""

    head: str
    tail: str
    links: int
    val: int
    test: int


@dataclass(frozen=True)
class ClientRelations:
    """A client's links by relation, and the relations that it learns to predict."""

    links: Mapping[str, int]
    specialities: Sequence[str]


@dataclass(frozen=True)
class GraphInspection:
    """Summary of each client's graphs, and divergences between clients by kind of information."""

    clients: Mapping[str, ClientSummary]
    divergences: Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class LinkInspection:
    """Each kind of link in the whole graph, and each client's nodes and links of each kind.

    ``classes``: labelled nodes by client and class. ``divergences``: between clients, empty for
    many.
    """

    kinds: Mapping[str, LinkKindSummary]
    clients: Mapping[str, Mapping[str, int]]
    classes: Mapping[str, Mapping[str, int]]
    divergences: Mapping[str, NDArray[np.float64]]


@dataclass(frozen=True)
class RelationInspection:
    """Node types and relations of the whole graph, and each client's links of each relation."""

    types: Mapping[str, NodeTypeSummary]
    relations: Mapping[str, RelationSummary]
    clients: Mapping[str, ClientRelations]
    divergences: Mapping[str, NDArray[np.float64]]


Inspection: TypeAlias = GraphInspection | LinkInspection | RelationInspection


def to_json(inspection: Inspection) -> dict[str, Any]:
    plain = {kind: matrix.tolist() for kind, matrix in inspection.divergences.items()}
    return {**asdict(inspection), "divergences": plain}


def inspect(setting: Setting, reading: Reading) -> Inspection:
    """Summarise all clients' data; the result depends on the kind of graphs."""
    first = data_of(setting, setting.clients[0], reading).content
    if isinstance(first, HeteroGraph):
        return _inspect_relations(setting, reading)
    if isinstance(first, NodeGraph):
        return _inspect_links(setting, reading)
    return inspect_graphs(setting, reading)


def inspect_graphs(setting: Setting, reading: Reading) -> GraphInspection:
    """Summarise clients with many graphs each."""
    if len(setting.clients) > MAX_CLIENTS:
        raise RametError(
            f"{len(setting.clients)} clients are too many to compare all pairs. "
            f"Use at most {MAX_CLIENTS}."
        )
    clients, portraits = {}, []
    for client in setting.clients:
        held = data_of(setting, client, reading)
        block: GraphBlock = held.content
        graphs = torch.cat([held.split.train, held.split.val, held.split.test])
        clients[client] = ClientSummary(
            graphs=graphs.numel(),
            nodes=float(block.node_starts.diff()[graphs].double().mean()),
            links=float(block.link_starts.diff()[graphs].double().mean()) / 2,
            features=block.feature_width,
            classes=counts_of(block.labels[graphs], block.classes).tolist(),
        )
        portraits.append(portrait(block, graphs))
    return GraphInspection(
        clients,
        {
            "features": divergences([one.feature for one in portraits]),
            "structure": divergences([one.structure for one in portraits]),
        },
    )


def _inspect_links(setting: Setting, reading: Reading) -> LinkInspection:
    """Summarise clients with one graph each, whose links may be of several kinds."""
    held = {client: data_of(setting, client, reading) for client in setting.clients}
    parts = {client: data.content for client, data in held.items()}
    whole = [held.content for held in _all_data(setting, reading)]
    names = dict.fromkeys(name for graph in whole for name in graph.kind_names)
    schemas = setting.schemas(reading.data)

    def counts(part: NodeGraph) -> dict[str, int]:
        links = torch.bincount(part.kinds, minlength=len(part.kind_names)).tolist()
        return {"nodes": part.nodes, **dict(zip(part.kind_names, links, strict=True))}

    def classes(client: str) -> dict[str, int]:
        """By the names that sites with their own data give to classes; otherwise by number."""
        counts = class_counts(held[client]).tolist()
        names = schemas[client].classes if schemas else [*map(str, range(len(counts)))]
        return dict(zip(names, counts, strict=True))

    return LinkInspection(
        {name: _link_kind(name, whole) for name in names},
        {client: counts(part) for client, part in parts.items()},
        {client: classes(client) for client in held},
        node_differences([*held.values()]) if 1 < len(held) <= MAX_CLIENTS else {},
    )


def _link_kind(name: str, graphs: Sequence[NodeGraph]) -> LinkKindSummary:
    count, edges, attributes = 0, 0.0, 0.0
    for graph in (graph for graph in graphs if name in graph.kind_names):
        links = (graph.kinds == graph.kind_names.index(name)).nonzero().flatten()
        if links.numel():
            count += links.numel()
            edges += links.numel() * edge_homophily(graph, links)
            attributes += links.numel() * attribute_homophily(graph, links)
    if not count:
        return LinkKindSummary(0, nan, nan)
    return LinkKindSummary(count, edges / count, attributes / count)


def _inspect_relations(setting: Setting, reading: Reading) -> RelationInspection:
    """Summarise clients with one graph each, of several node types or relations."""
    whole = _all_data(setting, reading)
    clients = {client: data_of(setting, client, reading) for client in setting.clients}
    nodes, links, val, test = Counter[str](), Counter[str](), Counter[str](), Counter[str]()
    for held in whole:
        graph = held.content
        nodes.update({kind.name: kind.nodes for kind in graph.types})
        links.update(_by_relation(graph, graph.links.kinds))
        val.update(_by_relation(graph, held.split.val.pairs.kinds))
        test.update(_by_relation(graph, held.split.test.pairs.kinds))

    def client_relations(part: HeteroGraph) -> ClientRelations:
        learned = _by_relation(part, part.links.kinds[part.learned])
        return ClientRelations(
            _by_relation(part, part.links.kinds), [name for name, count in learned.items() if count]
        )

    return RelationInspection(
        types={
            kind.name: NodeTypeSummary(
                nodes[kind.name], None if kind.features is None else kind.width
            )
            for held in whole
            for kind in held.content.types
        },
        relations={
            relation.name: RelationSummary(
                head=held.content.types[relation.head].name,
                tail=held.content.types[relation.tail].name,
                links=links[relation.name],
                val=val[relation.name],
                test=test[relation.name],
            )
            for held in whole
            for relation in held.content.relations
        },
        clients={client: client_relations(data.content) for client, data in clients.items()},
        divergences=relation_differences([*clients.values()])
        if 1 < len(clients) <= MAX_CLIENTS
        else {},
    )


def _by_relation(graph: HeteroGraph, kinds: Tensor) -> dict[str, int]:
    names = [relation.name for relation in graph.relations]
    counts: list[int] = torch.bincount(kinds, minlength=len(names)).tolist()
    return dict(zip(names, counts, strict=True))


def _all_data(setting: Setting, reading: Reading) -> list[ClientData[Any, Any]]:
    """Return the pooled data if the setting provides it, otherwise every client's data."""
    whole = setting.overview(reading)
    if whole is not None:
        return [whole]
    return [data_of(setting, client, reading) for client in setting.clients]
