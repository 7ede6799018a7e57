"""In-memory graphs, their splits, and the data of a client."""

from ramet.data.client_data import ClientData
from ramet.data.graphs.edge_graph import EdgeGraph, LabelledEdges
from ramet.data.graphs.graph_block import Batch, GraphBlock
from ramet.data.graphs.hetero_graph import HeteroGraph
from ramet.data.graphs.node_graph import NodeGraph
from ramet.data.graphs.structure import StructureEncoding
from ramet.data.splits import Split, stratified

__all__ = [
    "Batch",
    "ClientData",
    "EdgeGraph",
    "GraphBlock",
    "HeteroGraph",
    "LabelledEdges",
    "NodeGraph",
    "Split",
    "StructureEncoding",
    "stratified",
]
