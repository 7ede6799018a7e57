"""Graphs in: loaders, seeded splits, structure encodings, fast batches."""

from ramet.data.block import Batch, GraphBlock
from ramet.data.library import read_block
from ramet.data.splits import Split, stratified
from ramet.data.structure import StructureEncoding

__all__ = ["Batch", "GraphBlock", "Split", "StructureEncoding", "read_block", "stratified"]
