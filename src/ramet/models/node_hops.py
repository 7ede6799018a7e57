"""A network for node classification that uses links only in sums computed before training."""

from __future__ import annotations

from itertools import pairwise

import torch
from pydantic import NonNegativeInt
from torch import Tensor, nn

from ramet.data.graphs.node_graph import NodeGraph
from ramet.models.hops import hops_of
from ramet.models.layers import Dropout
from ramet.models.settings import NodeNetwork
from ramet.models.shape import NodeShape


class NodeHops(nn.Module):
    """Linear layers over a node's features and their sums over 1 to ``hops`` hops.

    With `--dp unit=link`, the sums have noise.

    Parameters: ``layers.0`` …
    """

    def __init__(
        self,
        shape: NodeShape,
        settings: NodeNetwork = NodeNetwork(),  # noqa: B008
        hops: NonNegativeInt = 2,
    ) -> None:
        super().__init__()
        self.hops = hops
        widths = [shape.features * (hops + 1), *[settings.hidden] * (settings.layers - 1)]
        pairs = pairwise([*widths, shape.classes])
        self.layers = nn.ModuleList(nn.Linear(*pair) for pair in pairs)
        self.dropout = Dropout(settings.dropout)
        self.embedding_size = shape.classes, widths[-1]

    def encode(self, graph: NodeGraph) -> Tensor:  # [nodes, hidden]
        x = hops_of(graph, self.hops)
        for layer in self.layers[:-1]:
            x = self.dropout.after(torch.relu, layer(x))
        return x

    def forward(self, graph: NodeGraph) -> Tensor:  # [nodes, classes]
        logits: Tensor = self.layers[-1](self.encode(graph))
        return logits
