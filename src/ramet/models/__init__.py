"""Networks as plain PyTorch modules. Methods select shared parameters by name patterns."""

from ramet.models.dense_dual_channel import DenseDualChannel
from ramet.models.dual_channel import DualChannel
from ramet.models.link_kinds import FindsLinkKinds
from ramet.models.multi_channel_gcn import GCN, MultiChannelGCN
from ramet.models.node_sage import MendedSAGE, NodeSAGE
from ramet.models.settings import (
    DenseNetwork,
    GCNNetwork,
    GraphNetwork,
    HGNNetwork,
    LinkClustering,
    MultiChannelNetwork,
    NodeNetwork,
)
from ramet.models.shape import GraphShape, LinkShape, NodeShape
from ramet.models.simple_hgn import SimpleHGN
from ramet.models.single_channel import GIN, GraphSAGE

__all__ = [
    "GCN",
    "GIN",
    "DenseDualChannel",
    "DenseNetwork",
    "DualChannel",
    "FindsLinkKinds",
    "GCNNetwork",
    "GraphNetwork",
    "GraphSAGE",
    "GraphShape",
    "HGNNetwork",
    "LinkClustering",
    "LinkShape",
    "MendedSAGE",
    "MultiChannelGCN",
    "MultiChannelNetwork",
    "NodeNetwork",
    "NodeSAGE",
    "NodeShape",
    "SimpleHGN",
]
