"""A GCN for a part of a graph whose sums over neighbours at other sites are known."""

from __future__ import annotations

import torch
from pydantic import PositiveInt
from torch import Tensor
from torch.nn import functional

from ramet.data.graphs.channel import Channel, by_row, scale
from ramet.data.graphs.neighbour_sums import near
from ramet.data.graphs.node_graph import NodeGraph
from ramet.data.graphs.outside import Outside
from ramet.models.layers import GCNLayer
from ramet.models.plain_node import NodeGCN
from ramet.models.settings import NodeNetwork
from ramet.models.shape import NodeShape

_UNIT = 2.0**-24


class BorderGCN(NodeGCN):
    """GCN whose first layer reads sums over neighbours at all sites, as far as they are known.

    With ``hops=2`` a part also has the sums of the nodes elsewhere that it is linked to. Then a
    network of two layers has the same output as on the whole graph.

    Parameters: ``layers.0`` …; buffers: ``sums``, ``degrees`` of the nodes linked across sites.
    """

    sums: Tensor
    degrees: Tensor

    def __init__(
        self,
        shape: NodeShape,
        settings: NodeNetwork = NodeNetwork(),  # noqa: B008
        hops: PositiveInt = 2,
    ) -> None:
        super().__init__(shape, settings)
        self.hops, rows = hops, max(shape.outside, 1)
        self.register_buffer("sums", torch.zeros(rows, shape.features, dtype=torch.float64))
        self.register_buffer("degrees", torch.zeros(rows))

    def encode(self, graph: NodeGraph) -> Tensor:  # [nodes, hidden]
        outside = self._known(graph)
        if outside is None:
            return super().encode(graph)
        return self._hidden(graph, outside)[0][: graph.nodes]

    def forward(self, graph: NodeGraph) -> Tensor:  # [nodes, classes]
        outside = self._known(graph)
        if outside is None:
            return super().forward(graph)
        hidden, links = self._hidden(graph, outside)
        if len(self.layers) == 1:
            return _linear(self.layers[0], hidden)[: graph.nodes]
        logits: Tensor = self.layers[-1](self.dropout(hidden), links)
        return logits[: graph.nodes]

    def _known(self, graph: NodeGraph) -> Outside | None:
        """The links to other sites, if there are any, and sums have been received."""
        outside = graph.outside
        return outside if outside and outside.rows and bool(self.degrees.any()) else None

    def _hidden(self, graph: NodeGraph, outside: Outside) -> tuple[Tensor, Channel]:
        """The last hidden rows of the site's nodes and, after two hops, of nodes elsewhere."""
        x, links = self._first(graph, outside)
        if len(self.layers) > 1:
            x = torch.relu(_linear(self.layers[0], x))
        for layer in self.layers[1:-1]:
            x = torch.relu(layer(self.dropout(x), links))
        return x, links

    def _first(self, graph: NodeGraph, outside: Outside) -> tuple[Tensor, Channel]:
        """The features after the first propagation over all sites, and the links from then on."""
        own = scale(all_degrees(graph))
        scaled = scaled_features(graph)
        sums = (near(graph, scaled) + scaled).index_copy(0, outside.nodes, self.sums[outside.row])
        if self.hops == 1:
            links = Channel(graph.whole.row_starts, graph.whole.columns)
            links.__dict__["gcn_scale"] = own
            return (own * sums).float(), links
        rows, right = torch.unique(outside.right, return_inverse=True)
        left = torch.cat([graph.left.long(), outside.left])
        right = torch.cat([graph.right.long(), graph.nodes + right])
        starts, columns, _ = by_row(left, right, graph.nodes + rows.numel())
        scales = torch.cat([own, scale(self.degrees[rows])])
        links = Channel(starts, columns)
        links.__dict__["gcn_scale"] = scales
        return (scales * torch.cat([sums, self.sums[rows]])).float(), links


def all_degrees(graph: NodeGraph) -> Tensor:
    """[nodes] the degrees, with links to other sites."""
    assert graph.outside is not None
    return graph.degrees + torch.bincount(graph.outside.left, minlength=graph.nodes)


def scaled_features(graph: NodeGraph) -> Tensor:
    """The features over √(degree + 1), in multiples of 2^-24, whose sums are exact in float64."""
    return ((graph.features * scale(all_degrees(graph))).double() / _UNIT).round() * _UNIT


def _linear(layer: object, values: Tensor) -> Tensor:
    assert isinstance(layer, GCNLayer)
    return functional.linear(values, layer.used_weight(), layer.bias)
