"""FedSpray's networks: a GCN, and an encoder of features that reads no links."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ramet.data.graphs.node_graph import NodeGraph
from ramet.models.layers import apply_linear
from ramet.models.plain_node import NodeGCN
from ramet.models.settings import NodeNetwork
from ramet.models.shape import NodeShape


class ProxyGCN(nn.Module):
    """A GCN, which predicts, beside an encoder whose neighbourhoods are proxies of classes.

    Parameters: ``gnn.layers.0`` …; ``proxies``; ``features``, ``classify`` and ``plain``.
    """

    reads = NodeGCN.reads

    def __init__(self, shape: NodeShape, settings: NodeNetwork = NodeNetwork()) -> None:  # noqa: B008
        super().__init__()
        self.gnn = NodeGCN(shape, settings)
        self.embedding_size = shape.classes, settings.hidden
        self.proxies = nn.Parameter(torch.zeros(shape.classes, settings.hidden))
        self.features = nn.Linear(shape.features, settings.hidden)
        self.classify = nn.Linear(settings.hidden, shape.classes)
        self.plain = nn.Linear(settings.hidden, shape.classes)

    def encode(self, graph: NodeGraph) -> Tensor:  # [nodes, hidden]
        return self.gnn.encode(graph)

    def forward(self, graph: NodeGraph) -> Tensor:  # [nodes, classes]
        logits: Tensor = self.gnn(graph)
        return logits

    def from_features(self, graph: NodeGraph) -> tuple[Tensor, Tensor]:
        """[nodes, classes] logits from features alone, and from features and proxies.

        The proxy of a training node is that of its class; that of another node is the mean over
        the classes, weighted by the probabilities from features alone.
        """
        hidden = apply_linear(self.features, graph).relu()
        plain: Tensor = self.plain(hidden)
        likely = plain.detach().softmax(dim=1) @ self.proxies
        proxies = torch.where(graph.trained.unsqueeze(1), self.proxies[graph.labels], likely)
        return plain, self.classify(hidden + proxies)
