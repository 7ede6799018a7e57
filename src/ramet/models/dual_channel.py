"""FedStar's feature–structure decoupled network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ramet.data.graphs.graph_block import Batch
from ramet.models.layers import Dropout, GCNLayer, GINLayer, InputLinear, graph_sums
from ramet.models.settings import GraphNetwork
from ramet.models.shape import GraphShape


class StructureChannel(nn.Module):
    """s⁰ = Linear(structure encoding), sˡ = tanh(GCN(sˡ⁻¹)); sees no node features."""

    def __init__(self, structure: int, hidden: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Linear(structure, hidden)
        self.layers = nn.ModuleList(GCNLayer(hidden, hidden) for _ in range(layers))


class DualChannel(nn.Module):
    """A GIN over features whose layers also read a GCN over structure encodings.

    Parameters: ``embed``, ``layers.0`` …, ``mix``, ``hidden`` and ``classify`` see features.
    ``structure.embed`` and ``structure.layers.0`` … see structure encodings only.
    """

    def __init__(self, shape: GraphShape, settings: GraphNetwork = GraphNetwork()) -> None:  # noqa: B008
        super().__init__()
        hidden, layers = settings.hidden, settings.layers
        self.embed = InputLinear(shape.features, hidden)
        self.layers = nn.ModuleList(GINLayer(2 * hidden, hidden) for _ in range(layers))
        self.structure = StructureChannel(shape.structure, hidden, layers)
        self.mix = nn.Linear(2 * hidden, hidden)
        self.hidden = nn.Linear(hidden, hidden)
        self.classify = nn.Linear(hidden, shape.classes)
        self.dropout = Dropout(settings.dropout)

    def forward(self, batch: Batch) -> Tensor:  # [graphs, classes]
        x = self.embed(batch.features)  # [nodes, hidden]
        s = self.structure.embed(batch.structure)  # [nodes, hidden]
        for feature_layer, structure_layer in zip(self.layers, self.structure.layers, strict=True):
            x = self.dropout.after(torch.relu, feature_layer(torch.cat([x, s], dim=1), batch.whole))
            s = structure_layer(s, batch.whole).tanh_()
        nodes = self.mix(torch.cat([x, s], dim=1))  # [nodes, hidden]
        pooled = self.hidden(graph_sums(nodes, batch)).relu_()  # [graphs, hidden]
        logits: Tensor = self.classify(self.dropout(pooled))
        return logits
