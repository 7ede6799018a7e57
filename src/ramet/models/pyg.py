"""Networks with PyG's signature, ``forward(x, edge_index, …)``, for tools such as its explainers.

Networks take a whole graph, which holds what training computes once. Here the graph is as PyG has
it, and messages pass through PyG's ``MessagePassing``, so that explainers can mask links.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch_geometric.nn import MessagePassing

from ramet.data.graphs.channel import GivenLinks
from ramet.data.graphs.edge_graph import LabelledEdges
from ramet.data.graphs.flow import Flow
from ramet.data.graphs.hetero_graph import NodeType
from ramet.data.graphs.link_values import Edges, HasEdges, LinkValues

EdgeType: TypeAlias = tuple[str, str, str]
"""Type of the source, name of the relation, type of the target."""


class _Messages(MessagePassing):  # type: ignore[misc]
    """Sums of neighbours' rows, each times the weight of its link."""

    def __init__(self) -> None:
        super().__init__(aggr="add", node_dim=0)

    def forward(self, edge_index: Tensor, values: Tensor, weights: Tensor) -> Tensor:
        sums: Tensor = self.propagate(edge_index, x=values, weights=weights)
        return sums

    def message(self, x_j: Tensor, weights: Tensor) -> Tensor:
        return x_j * weights


@dataclass(frozen=True)
class _Given(HasEdges):
    """What networks read of a ``NodeGraph`` or a ``Batch``.

    Links are edges in both directions; for networks that read directions, in that of the link.
    """

    x: Tensor  # [nodes, features]
    whole: GivenLinks
    values: LinkValues
    one_way: bool
    """Whether a link is there once, and needed in both directions."""
    edge_type: Tensor  # [edges]
    batch: Tensor  # [nodes]
    structure: Tensor  # [nodes, structure]
    spectrum: Tensor
    asked: LabelledEdges | None = None
    hops: None = None
    sparse_features: None = None

    @property
    def features(self) -> Tensor:
        return self.x

    @property
    def compact_features(self) -> Tensor:
        return self.x

    @property
    def edges(self) -> Edges:
        return Edges(self.whole.edge_index, self.values, self.whole.rows[:0])

    @property
    def both_ways(self) -> Edges:
        if not self.one_way:
            return self.edges
        index, attributes = self.whole.edge_index, self.values.attributes
        twice = None if attributes is None else torch.cat([attributes, attributes])
        along = torch.ones_like(index[0])
        values = LinkValues(attributes=twice, directions=torch.cat([along, -along]))
        return Edges(torch.cat([index, index.flip(0)], dim=1), values, self.whole.rows[:0])

    @property
    def weighted(self) -> GivenLinks:
        return replace(self.whole, weights=self.values.weights)

    @property
    def nodes(self) -> int:
        return self.whole.nodes

    @property
    def degrees(self) -> Tensor:
        return self.whole.degrees

    @property
    def gcn_scale(self) -> Tensor:
        return self.whole.gcn_scale

    @property
    def left(self) -> Tensor:
        return self.edge_index.amin(dim=0)

    @property
    def right(self) -> Tensor:
        return self.edge_index.amax(dim=0)

    @property
    def kinds(self) -> Tensor:
        return self.edge_type

    def channels(self, kinds: Tensor, count: int) -> Iterator[GivenLinks]:
        return (replace(self.whole, chosen=kinds == kind) for kind in range(count))

    @property
    def graph(self) -> Tensor:
        return self.batch

    @cached_property
    def graphs(self) -> Any:
        """A number; while a program is written, one that is not known yet."""
        return self.batch.max().item() + 1 if self.batch.numel() else 0


class _PyGNetwork(nn.Module):
    """A network whose messages pass through PyG."""

    def __init__(self, network: nn.Module) -> None:
        super().__init__()
        self.network = network
        self.messages: nn.Module = _Messages()

    def logits(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_type: Tensor | None,
        batch: Tensor | None,
        structure: Tensor | None,
        values: LinkValues,
        asked: LabelledEdges | None = None,
    ) -> Tensor:
        nodes = x.size(0)
        given = _Given(
            x=x,
            whole=GivenLinks(edge_index, nodes, self.messages),
            values=values,
            one_way=getattr(self.network, "one_way", False) and not values.directed,
            edge_type=torch.zeros_like(edge_index[0]) if edge_type is None else edge_type,
            batch=edge_index.new_zeros(nodes) if batch is None else batch,
            structure=x.new_zeros((nodes, 0)) if structure is None else structure,
            spectrum=x.new_zeros(0),
            asked=asked,
        )
        logits: Tensor = self.network(given)
        return logits


class PyGNodeNetwork(_PyGNetwork):
    """A network for node classification with PyG's signature.

    ``edge_index`` has each link in both directions and no self loops; for networks that read
    directions, links that go one way are there once. ``edge_type`` is the kind of each edge, for
    networks that read the true kinds, and ``edge_attr`` and ``edge_weight`` are for those that read
    attributes and weights. With ``edge_direction``, each link is there in both directions: 1 with
    that of the link, -1 against it, and 0 if it has none.
    """

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_type: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_direction: Tensor | None = None,
    ) -> Tensor:  # [nodes, classes]
        values = LinkValues(edge_attr, edge_weight, edge_direction)
        return self.logits(x, edge_index, edge_type, None, None, values)


class PyGEdgeNetwork(_PyGNetwork):
    """A network for edge classification with PyG's signature.

    Links are as in ``PyGNodeNetwork``. ``edge_label_index`` has source and target of each edge to
    classify, and ``edge_label_attr`` its attributes, if it has any.
    """

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_label_index: Tensor,
        edge_label_attr: Tensor | None = None,
        edge_type: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_direction: Tensor | None = None,
    ) -> Tensor:  # [edges to classify, classes]
        values = LinkValues(edge_attr, edge_weight, edge_direction)
        asked = LabelledEdges(edge_label_index, edge_label_attr)
        return self.logits(x, edge_index, edge_type, None, None, values, asked)


class PyGGraphNetwork(_PyGNetwork):
    """A network for graph classification with PyG's signature.

    Links are as in ``PyGNodeNetwork``; ``batch`` is the graph of each node, and ``structure`` its
    structure encoding, for networks that read one.
    """

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        batch: Tensor | None = None,
        structure: Tensor | None = None,
        edge_attr: Tensor | None = None,
        edge_weight: Tensor | None = None,
        edge_direction: Tensor | None = None,
    ) -> Tensor:  # [graphs, classes]
        values = LinkValues(edge_attr, edge_weight, edge_direction)
        return self.logits(x, edge_index, None, batch, structure, values)


@dataclass(frozen=True)
class _GivenTypes:
    """What networks read of a ``HeteroGraph``."""

    types: list[NodeType]
    whole: GivenLinks
    flow_kinds: Tensor  # [edges of the flow]

    @property
    def flow(self) -> Flow:
        return self.whole.flow


class PyGLinkNetwork(nn.Module):
    """A network for link prediction with the attributes of PyG's ``HeteroData`` as arguments.

    Returns a logit for each pair of ``edge_label_index_dict``, by relation. ``edge_index_dict`` has
    the known links, each in the direction of its relation. A node type that had no features in
    training is left out of ``x_dict``: its nodes are those of training, in the same order.
    """

    def __init__(self, network: Any) -> None:
        super().__init__()
        self.network = network
        self.messages: nn.Module = _Messages()

    def forward(
        self,
        x_dict: Mapping[str, Tensor],
        edge_index_dict: Mapping[EdgeType, Tensor],
        edge_label_index_dict: Mapping[EdgeType, Tensor],
    ) -> dict[EdgeType, Tensor]:
        starts, types, nodes = {}, [], 0
        for name, layer in self.network.project.items():
            x = x_dict.get(name)
            types.append(NodeType(name, layer.in_features if x is None else x.size(0), x))
            starts[name], nodes = nodes, nodes + types[-1].nodes

        def numbered(of: EdgeType, ends: Tensor) -> Tensor:
            """[2, pairs] with nodes numbered across all types."""
            return torch.stack([ends[0] + starts[of[0]], ends[1] + starts[of[2]]])

        known = {of[1]: numbered(of, ends) for of, ends in edge_index_dict.items()}
        relations: list[str] = [*self.network.relations]
        links = torch.cat([known[name] for name in relations], dim=1)
        kinds = [torch.full_like(known[name][0], kind) for kind, name in enumerate(relations)]
        kinds += [one + len(relations) for one in kinds]
        kinds.append(links.new_full((nodes,), 2 * len(relations)))
        edges = torch.cat([links, links.flip(0)], dim=1)
        whole = GivenLinks(edges, nodes, self.messages)
        z = self.network.encode(_GivenTypes(types, whole, torch.cat(kinds)))
        return {
            of: self.network.scores_of_kind(z, *numbered(of, ends), relations.index(of[1]))
            for of, ends in edge_label_index_dict.items()
        }
