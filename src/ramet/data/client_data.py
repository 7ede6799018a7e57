"""What a client holds: its data and how they are split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from ramet.data.graphs.graph_block import GraphBlock
from ramet.data.graphs.hetero_graph import HeteroGraph
from ramet.data.graphs.node_graph import NodeGraph
from ramet.data.link_split import HeldOutPairs
from ramet.data.splits import Split

Content = TypeVar("Content", GraphBlock, NodeGraph, HeteroGraph, covariant=True)
Division = TypeVar("Division", Split, HeldOutPairs, covariant=True)


@dataclass(frozen=True)
class ClientData(Generic[Content, Division]):
    """Many graphs, or one graph with many nodes, or one with links to be told from other pairs.

    In a simulation a client's model may be judged on data that are not its own: then ``judged`` has
    them, and validation and test samples are numbered there.
    """

    content: Content
    split: Division
    judged: Content | None = None
