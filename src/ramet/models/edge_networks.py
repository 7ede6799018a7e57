"""Networks for edge classification: a network for nodes, and a head over both ends of an edge."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from torch import Tensor, nn

from ramet.data.graphs.edge_graph import EdgeGraph, LabelledEdges
from ramet.models.layers import Dropout
from ramet.models.link_aware import NodeDirSAGE, NodeGATv2, NodeGINE
from ramet.models.link_reading import Value
from ramet.models.plain_node import NodeGAT, NodeGCN, NodeGIN, NodeMLP, PlainNodeSAGE
from ramet.models.settings import NodeAttentionNetwork, NodeNetwork
from ramet.models.shape import EdgeShape, NodeShape


class _EdgeNetwork(nn.Module):
    """Embeds the nodes, and classifies edges by their ends and attributes.

    Parameters: ``nodes`` with those of the network for nodes, ``source``, ``target`` if edges are
    ordered, ``attributes`` if they have any, ``classify``.
    """

    reads: ClassVar[tuple[Value, ...]] = ()
    together: ClassVar[tuple[str, ...]] = ("source", "target", "attributes", "classify")

    def __init__(
        self,
        shape: EdgeShape,
        settings: NodeNetwork,
        network: Callable[[NodeShape, Any], nn.Module],
    ) -> None:
        super().__init__()
        hidden = settings.hidden
        self.nodes = network(shape.embedding(hidden), settings)
        self.source = nn.Linear(hidden, hidden)
        self.target = nn.Linear(hidden, hidden, bias=False) if shape.ordered else None
        width = shape.asked_width
        self.attributes = nn.Linear(width, hidden, bias=False) if width else None
        self.classify = nn.Linear(hidden, shape.classes)
        self.dropout = Dropout(settings.dropout)
        self.embedding_size = shape.classes, hidden

    @property
    def one_way(self) -> bool:
        """Whether messages also go against the direction of their link, and carry that they do."""
        return getattr(self.nodes, "one_way", False)

    def encode(self, graph: EdgeGraph) -> Tensor:  # [asked, hidden]
        nodes = self.dropout(self.nodes(graph).relu())
        return self._joined(nodes, graph.asked).relu()

    def _joined(self, nodes: Tensor, asked: LabelledEdges) -> Tensor:
        """A linear map of both ends and the attributes, computed once for each node."""
        source, target = asked.ends
        as_source = self.source(nodes)
        as_target = as_source if self.target is None else self.target(nodes)
        joined: Tensor = as_source.index_select(0, source) + as_target.index_select(0, target)
        if self.attributes is not None:
            joined = joined + self.attributes(asked.attributes)
        return joined

    def forward(self, graph: EdgeGraph) -> Tensor:  # [asked, classes]
        logits: Tensor = self.classify(self.dropout(self.encode(graph)))
        return logits


class EdgeMLP(_EdgeNetwork):
    """Multilayer perceptron on both ends of each edge and its attributes, without other links."""

    def __init__(self, shape: EdgeShape, settings: NodeNetwork = NodeNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, NodeMLP)


class EdgeGIN(_EdgeNetwork):
    """Graph isomorphism network, and both ends of each edge."""

    def __init__(self, shape: EdgeShape, settings: NodeNetwork = NodeNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, NodeGIN)


class EdgeGCN(_EdgeNetwork):
    """Graph convolutional network with weights, and both ends of each edge."""

    reads = NodeGCN.reads

    def __init__(self, shape: EdgeShape, settings: NodeNetwork = NodeNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, NodeGCN)


class EdgeSAGE(_EdgeNetwork):
    """GraphSAGE with mean aggregation, and both ends of each edge."""

    def __init__(self, shape: EdgeShape, settings: NodeNetwork = NodeNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, PlainNodeSAGE)


class EdgeGAT(_EdgeNetwork):
    """Graph attention network, and both ends of each edge."""

    def __init__(
        self,
        shape: EdgeShape,
        settings: NodeAttentionNetwork = NodeAttentionNetwork(),  # noqa: B008
    ) -> None:
        super().__init__(shape, settings, NodeGAT)


class EdgeGINE(_EdgeNetwork):
    """Graph isomorphism network with attributes of links, and both ends of each edge."""

    reads = NodeGINE.reads

    def __init__(self, shape: EdgeShape, settings: NodeNetwork = NodeNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, NodeGINE)


class EdgeGATv2(_EdgeNetwork):
    """Graph attention network with attributes of links, and both ends of each edge."""

    reads = NodeGATv2.reads

    def __init__(
        self,
        shape: EdgeShape,
        settings: NodeAttentionNetwork = NodeAttentionNetwork(),  # noqa: B008
    ) -> None:
        super().__init__(shape, settings, NodeGATv2)


class EdgeDirSAGE(_EdgeNetwork):
    """GraphSAGE with separate incoming and outgoing messages, and both ends of each edge."""

    reads = NodeDirSAGE.reads

    def __init__(self, shape: EdgeShape, settings: NodeNetwork = NodeNetwork()) -> None:  # noqa: B008
        super().__init__(shape, settings, NodeDirSAGE)
