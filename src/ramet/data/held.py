"""What a client holds: its data and how they are split."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

from ramet.data.block import GraphBlock
from ramet.data.node_graph import NodeGraph
from ramet.data.splits import Split

Content = TypeVar("Content", GraphBlock, NodeGraph, covariant=True)


@dataclass(frozen=True)
class Held(Generic[Content]):
    """Many graphs, or one graph with many nodes.

    In a simulation a client's model may be judged on data that are not its own: then ``judged`` has
    them, and validation and test samples are numbered there.
    """

    content: Content
    split: Split
    judged: Content | None = None
