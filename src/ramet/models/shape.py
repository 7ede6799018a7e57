"""The sizes in which clients differ, and which a model is built for."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class GraphShape:
    """How wide a client's node features and structure encodings are, and how many classes."""

    features: int
    structure: int
    classes: int

    def plain(self) -> GraphShape:
        """The smallest shape like this one: what a part has that sees no feature and no class."""
        return GraphShape(features=1, structure=self.structure, classes=2)

    def other(self) -> GraphShape:
        """One that differs wherever two clients may."""
        return replace(self, features=self.features + 1, classes=self.classes + 1)


@dataclass(frozen=True)
class NodeShape:
    """How wide a client's node features are, and how many classes its nodes have."""

    features: int
    classes: int

    def plain(self) -> NodeShape:
        """As for graphs."""
        return NodeShape(features=1, classes=2)

    def other(self) -> NodeShape:
        return replace(self, features=self.features + 1, classes=self.classes + 1)


@dataclass(frozen=True)
class LinkShape:
    """The node types with the widths of their features, and the relations."""

    types: tuple[tuple[str, int], ...]
    relations: tuple[str, ...]

    def plain(self) -> LinkShape:
        """As for graphs, of the same schema."""
        return LinkShape(tuple((name, 1) for name, _ in self.types), self.relations)

    def other(self) -> LinkShape:
        return LinkShape((*self.types, ("another", 1)), (*self.relations, "another"))
