"""Shapes: the sizes that a model is built for, and in which clients may differ."""

from __future__ import annotations

from dataclasses import dataclass, fields, replace
from typing import TypeAlias, TypeVar

from ramet.data.own.schema import TaskName

Sized = TypeVar("Sized", "GraphShape", "NodeShape", "EdgeShape")


@dataclass(frozen=True)
class GraphShape:
    """Widths of a client's node features and structure encodings, and its number of classes.

    ``link_width`` is the number of attributes of links, and ``directed`` whether they may go one
    way only. Most networks read neither.
    """

    features: int
    structure: int
    classes: int
    link_width: int = 0
    directed: bool = False
    nodes: int = 0
    """The number of nodes, if they are the same in every graph; 0 otherwise."""

    def plain(self) -> GraphShape:
        """The smallest shape with the same structure encodings.

        Parts of a model that do not depend on features or classes have their usual size in it.
        """
        return replace(self, features=1, classes=2, nodes=1, link_width=1, directed=False)

    def other(self) -> GraphShape:
        """A shape that differs from this one wherever two clients may differ."""
        return _larger(replace(self, nodes=self.nodes + 1))


@dataclass(frozen=True)
class NodeShape:
    """Width of a client's node features, its number of classes, and links as in ``GraphShape``."""

    features: int
    classes: int
    link_width: int = 0
    directed: bool = False
    outside: int = 0
    """The number of nodes, at all sites, with links to other sites; 0 if they are unknown."""

    def plain(self) -> NodeShape:
        """The smallest shape."""
        return NodeShape(features=1, classes=2, link_width=1)

    def other(self) -> NodeShape:
        return _larger(self)


@dataclass(frozen=True)
class EdgeShape(NodeShape):
    """Sizes as in ``NodeShape``, and those of the edges whose classes are predicted."""

    asked_width: int = 0
    """The number of their attributes."""
    ordered: bool = False
    """Whether they go from source to target, or both ways."""

    def embedding(self, width: int) -> NodeShape:
        """The shape of a network that returns vectors of this width for nodes."""
        own = {one.name: getattr(self, one.name) for one in fields(NodeShape)}
        return NodeShape(**{**own, "classes": width})

    def plain(self) -> EdgeShape:
        return EdgeShape(features=1, classes=2, link_width=1, asked_width=1)

    def other(self) -> EdgeShape:
        return _larger(replace(self, asked_width=self.asked_width + 1))


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


def _larger(shape: Sized) -> Sized:
    """A shape with one feature, class and attribute of links more."""
    return replace(
        shape,
        features=shape.features + 1,
        classes=shape.classes + 1,
        link_width=shape.link_width + 1,
    )


Shape: TypeAlias = GraphShape | NodeShape | LinkShape
SHAPES: dict[TaskName, type[Shape]] = {
    **dict.fromkeys(("graph-classification", "graph-regression", "graph-multilabel"), GraphShape),
    **dict.fromkeys(("node-classification", "node-regression", "node-multilabel"), NodeShape),
    "edge-classification": EdgeShape,
    "link-prediction": LinkShape,
}
"""What networks of each task are built for."""
FIRST_TASKS: dict[type[Shape], TaskName] = {shape: task for task, shape in reversed(SHAPES.items())}
"""The first task of each."""
