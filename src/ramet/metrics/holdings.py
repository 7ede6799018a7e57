"""What a client holds, in numbers."""

from __future__ import annotations

from collections.abc import Sequence
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
