"""The networks by name, for each shape that they can be built for.

A network is called with a shape and, optionally, its settings. Methods rely on these conventions:

- The message-passing layers are a ModuleList named ``layers``: ``layers.0``, ``layers.1``, … It is
  registered in the network itself, or in one of its parts (``channel.layers`` in FedLIT's GCN).
- What is registered before the layers is the input, and what is registered after them is the head.
  A network may have neither.
- Arrays whose size depends on a client's features or classes are in the input, the first layer, the
  last layer or the head.
- ``encode`` returns the embeddings that the last layer or the head turns into logits, and
  ``embedding_size`` is a pair: the number of classes and the width of embeddings. Methods that
  compare embeddings (FedProto, MOON) need them; networks for link prediction have no classes.
- ``together`` names the attributes that are shared together or not at all, such as the two parts of
  a head. Other attributes after the layers are shared if they have the same size at every site.
- ``reads`` names what the network uses of the values of links; without it, it ignores them all.
- ``switchable`` names the tensors that belong to one node type or relation. Only networks for link
  prediction have it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import nn

from ramet.errors import RametError
from ramet.models.aligned import AlignedGCN, Linear
from ramet.models.edge_networks import (
    EdgeDirSAGE,
    EdgeGAT,
    EdgeGATv2,
    EdgeGCN,
    EdgeGIN,
    EdgeGINE,
    EdgeMLP,
    EdgeSAGE,
)
from ramet.models.link_aware import (
    GraphDirSAGE,
    GraphGATv2,
    GraphGINE,
    NodeDirSAGE,
    NodeGATv2,
    NodeGINE,
)
from ramet.models.link_reading import Value, values_read
from ramet.models.multi_channel_gcn import GCN
from ramet.models.node_hops import NodeHops
from ramet.models.node_sage import NodeSAGE
from ramet.models.plain_link import LinkGAT, LinkGCN, LinkGIN, LinkMLP, LinkSAGE
from ramet.models.plain_node import NodeGAT, NodeGCN, NodeGIN, NodeMLP, PlainNodeSAGE
from ramet.models.shape import EdgeShape, GraphShape, LinkShape, NodeShape
from ramet.models.simple_hgn import SimpleHGN
from ramet.models.single_channel import GIN, GraphGAT, GraphGCN, GraphMLP, GraphSAGE


def embedding_size(model: nn.Module) -> tuple[int, int]:
    """The number of classes, and the width of the embeddings that ``encode`` returns."""
    size: tuple[int, int] | None = getattr(model, "embedding_size", None)
    if size is None:
        raise RametError(
            f"the network {type(model).__name__} has no `embedding_size` (the number of classes, "
            "and the width of what `encode` returns), so its classes have no prototypes."
        )
    return size


NETWORKS: dict[str, dict[type[Any], Callable[..., nn.Module]]] = {
    "gin": {GraphShape: GIN, NodeShape: NodeGIN, EdgeShape: EdgeGIN, LinkShape: LinkGIN},
    "gcn": {GraphShape: GraphGCN, NodeShape: NodeGCN, EdgeShape: EdgeGCN, LinkShape: LinkGCN},
    "sage": {
        GraphShape: GraphSAGE,
        NodeShape: PlainNodeSAGE,
        EdgeShape: EdgeSAGE,
        LinkShape: LinkSAGE,
    },
    "gat": {GraphShape: GraphGAT, NodeShape: NodeGAT, EdgeShape: EdgeGAT, LinkShape: LinkGAT},
    "mlp": {GraphShape: GraphMLP, NodeShape: NodeMLP, EdgeShape: EdgeMLP, LinkShape: LinkMLP},
    "linear": {GraphShape: Linear},
    "aligned-gcn": {GraphShape: AlignedGCN},
    "gine": {GraphShape: GraphGINE, NodeShape: NodeGINE, EdgeShape: EdgeGINE},
    "gatv2": {GraphShape: GraphGATv2, NodeShape: NodeGATv2, EdgeShape: EdgeGATv2},
    "dir-sage": {GraphShape: GraphDirSAGE, NodeShape: NodeDirSAGE, EdgeShape: EdgeDirSAGE},
    "hops": {NodeShape: NodeHops},
    "fedlit-gcn": {NodeShape: GCN},
    "fedsage-sage": {NodeShape: NodeSAGE},
    "simple-hgn": {LinkShape: SimpleHGN},
}

UNLINKED = "mlp"
"""The network that sees no links, to tell what they add."""
ALIGNED = ("linear", "aligned-gcn")
"""Networks for graphs that all have the same nodes."""

DEFAULT_NETWORKS: dict[type[Any], str] = {
    GraphShape: "gin",
    NodeShape: "gcn",
    EdgeShape: "gcn",
    LinkShape: "simple-hgn",
}


def reads_value(name: str, value: Value) -> bool:
    """Whether a network of this name reads a value of links, for any task."""
    return any(value in values_read(network) for network in NETWORKS[name].values())
