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
