"""Graphs in: loaders, seeded splits, structure encodings, fast batches."""

from ramet.data.block import Batch, GraphBlock
from ramet.data.held import Held
from ramet.data.hetero_graph import HeteroGraph
from ramet.data.library import read_block
from ramet.data.node_graph import NodeGraph
from ramet.data.splits import Split, stratified
from ramet.data.structure import StructureEncoding

__all__ = [
    "Batch",
    "GraphBlock",
    "Held",
    "HeteroGraph",
    "NodeGraph",
    "Split",
    "StructureEncoding",
    "read_block",
    "stratified",
]
