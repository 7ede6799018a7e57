"""Networks as plain PyTorch modules. Methods select shared parameters by name patterns."""

from ramet.models.adaptive_gcn import AdaptiveGCN
from ramet.models.dense_dual_channel import DenseDualChannel
from ramet.models.dual_channel import DualChannel
from ramet.models.generated_graph import FeatureGenerator, nearest_graph
from ramet.models.link_kinds import FindsLinkKinds
from ramet.models.multi_channel_gcn import GCN, MultiChannelGCN
from ramet.models.networks import DEFAULT_NETWORKS, NETWORKS, embedding_size
from ramet.models.node_sage import MendedSAGE, NodeSAGE
from ramet.models.plain_link import LinkGAT, LinkGCN, LinkGIN, LinkSAGE
from ramet.models.plain_node import MaskedNodeGCN, NodeGAT, NodeGCN, NodeGIN, PlainNodeSAGE
from ramet.models.propagation import propagated
from ramet.models.random_graph import random_graph
from ramet.models.random_views import random_view
from ramet.models.random_walk import return_probabilities
from ramet.models.settings import (
    DenseNetwork,
    GCNNetwork,
    GraphAttentionNetwork,
    GraphNetwork,
    HGNNetwork,
    LinkAttentionNetwork,
    LinkClustering,
    LinkNetwork,
    MultiChannelNetwork,
    NodeAttentionNetwork,
    NodeNetwork,
    SpectralNetwork,
)
from ramet.models.shape import GraphShape, LinkShape, NodeShape
from ramet.models.simple_hgn import SimpleHGN
from ramet.models.single_channel import GIN, GraphGAT, GraphGCN, GraphSAGE
from ramet.models.spectral import SpectralGNN
from ramet.models.structure_proxies import ProxyGCN

__all__ = [
    "DEFAULT_NETWORKS",
    "GCN",
    "GIN",
    "NETWORKS",
    "AdaptiveGCN",
    "DenseDualChannel",
    "DenseNetwork",
    "DualChannel",
    "FeatureGenerator",
    "FindsLinkKinds",
    "GCNNetwork",
    "GraphAttentionNetwork",
    "GraphGAT",
    "GraphGCN",
    "GraphNetwork",
    "GraphSAGE",
    "GraphShape",
    "HGNNetwork",
    "LinkAttentionNetwork",
    "LinkClustering",
    "LinkGAT",
    "LinkGCN",
    "LinkGIN",
    "LinkNetwork",
    "LinkSAGE",
    "LinkShape",
    "MaskedNodeGCN",
    "MendedSAGE",
    "MultiChannelGCN",
    "MultiChannelNetwork",
    "NodeAttentionNetwork",
    "NodeGAT",
    "NodeGCN",
    "NodeGIN",
    "NodeNetwork",
    "NodeSAGE",
    "NodeShape",
    "PlainNodeSAGE",
    "ProxyGCN",
    "SimpleHGN",
    "SpectralGNN",
    "SpectralNetwork",
    "embedding_size",
    "nearest_graph",
    "propagated",
    "random_graph",
    "random_view",
    "return_probabilities",
]
