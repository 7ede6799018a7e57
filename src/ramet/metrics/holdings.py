"""What a client holds, in numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Holdings:
    """Counts; nodes and links are means over the graphs, a link counts once."""

    graphs: int
    nodes: float
    links: float
    features: int
    classes: Sequence[int]  # graphs of each class


@dataclass(frozen=True)
class KindOfLink:
    """How many links of a kind there are, and how alike their ends are (0 to 1, and cosine)."""

    links: int
    edge_homophily: float
    attribute_homophily: float


@dataclass(frozen=True)
class TypeOfNode:
    """How many nodes of a type there are; without features each has a learned vector."""

    nodes: int
    features: int | None


@dataclass(frozen=True)
class Relation:
    """Training links from one node type to another, and the held-out pairs that are asked about."""

    head: str
    tail: str
    links: int
    val: int
    test: int


@dataclass(frozen=True)
class LinksOfRelations:
    """A client's links by relation, and the relations that it learns to predict."""

    links: Mapping[str, int]
    specialities: Sequence[str]
