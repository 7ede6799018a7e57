"""Shapes: the sizes that a model is built for, and in which clients may differ."""

from __future__ import annotations

from dataclasses import dataclass, replace


@dataclass(frozen=True)
class GraphShape:
    """Widths of a client's node features and structure encodings, and its number of classes."""

    features: int
    structure: int
    classes: int
    nodes: int = 0
    """The number of nodes, if they are the same in every graph; 0 otherwise."""

    def plain(self) -> GraphShape:
        """The smallest shape with the same structure encodings.

        Parts of a model that do not depend on features or classes have their usual size in it.
        """
        return replace(self, features=1, classes=2, nodes=1)

    def other(self) -> GraphShape:
        """A shape that differs from this one wherever two clients may differ."""
        return replace(
            self, features=self.features + 1, classes=self.classes + 1, nodes=self.nodes + 1
        )


@dataclass(frozen=True)
class NodeShape:
    """Width of a client's node features, its number of classes, and nodes linked across sites."""

    features: int
    classes: int
    outside: int = 0
    """The number of nodes, at all sites, with links to other sites; 0 if they are unknown."""

    def plain(self) -> NodeShape:
        """The smallest shape."""
        return NodeShape(features=1, classes=2)

    def other(self) -> NodeShape:
        return replace(self, features=self.features + 1, classes=self.classes + 1)


@dataclass(frozen=True)
class LinkShape:
    """Node types with the widths of their features, and relations."""

    types: tuple[tuple[str, int], ...]
    relations: tuple[str, ...]

    def plain(self) -> LinkShape:
        """The smallest shape with the same types and relations."""
        return LinkShape(tuple((name, 1) for name, _ in self.types), self.relations)

    def other(self) -> LinkShape:
        wider = tuple((name, width + 1) for name, width in self.types)
        return LinkShape((*wider, ("another", 1)), (*self.relations, "another"))
