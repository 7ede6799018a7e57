"""The sizes in which clients differ, and which a model is built for."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class GraphShape:
    """How wide a client's node features and structure encodings are, and how many classes."""

    features: int
    structure: int
    classes: int

    def plain(self) -> GraphShape:
        """The smallest shape like this one: what a part has that sees no feature and no class."""
        return GraphShape(features=1, structure=self.structure, classes=2)


@dataclass(frozen=True)
class NodeShape:
    """How wide a client's node features are, and how many classes its nodes have."""

    features: int
    classes: int

    def plain(self) -> NodeShape:
        """As for graphs."""
        return NodeShape(features=1, classes=2)
