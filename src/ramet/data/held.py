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
    """Many graphs, or one graph with many nodes."""

    content: Content
    split: Split
