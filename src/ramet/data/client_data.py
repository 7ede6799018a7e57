"""The data of one client and its split."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Generic, TypeVar

from ramet.data.graphs.graph_block import GraphBlock
from ramet.data.graphs.hetero_graph import HeldOutPairs, HeteroGraph
from ramet.data.graphs.node_graph import NodeGraph
from ramet.data.splits import Split

Content = TypeVar("Content", GraphBlock, NodeGraph, HeteroGraph, covariant=True)
Division = TypeVar("Division", Split, HeldOutPairs, covariant=True)


@dataclass(frozen=True)
class ClientData(Generic[Content, Division]):
    """Many graphs to classify, one graph of nodes to classify, or one graph with links to predict.

    In a simulation, a client's model may be evaluated on data that the client does not hold; and
    the client's own graph may have more links when it is validated and tested than in training.
    ``evaluated_on`` then has what ``val`` and ``test`` are evaluated on, and their indices refer to
    it.
    """

    content: Content
    split: Division
    evaluated_on: Mapping[str, Content] | None = None
