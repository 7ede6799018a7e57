"""What a site that holds a part of a graph knows of the rest: which of its links lead elsewhere."""

from __future__ import annotations

from dataclasses import dataclass, fields

import torch
from torch import Tensor


@dataclass(frozen=True)
class Outside:
    """The links between a site's nodes and nodes of other sites.

    All nodes with such links, at any site, have a number that all sites know: their row.
    """

    rows: int
    """How many there are at all sites."""
    nodes: Tensor  # [own nodes with such links] their indices in the graph
    row: Tensor  # [own nodes with such links] their rows
    left: Tensor  # [links] index of the own node
    right: Tensor  # [links] row of the node at another site

    def to(self, device: torch.device) -> Outside:
        tensors = [getattr(self, field.name).to(device) for field in fields(self)[1:]]
        return Outside(self.rows, *tensors)
