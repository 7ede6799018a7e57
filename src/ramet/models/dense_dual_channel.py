"""FedDense's dual, densely connected network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ramet.data.graphs.graph_block import Batch
from ramet.models.layers import Dropout, GCNLayer, GINLayer, InputLinear, graph_sums
from ramet.models.settings import DenseNetwork
from ramet.models.shape import GraphShape


class NarrowStructureChannel(nn.Module):
    """s⁰ = Linear(structure encoding), sˡ from GCN(sˡ⁻¹); all maps except s⁰ are narrow."""

    def __init__(self, structure: int, hidden: int, width: int, layers: int) -> None:
        super().__init__()
        self.embed = nn.Linear(structure, hidden)
        self.layers = nn.ModuleList(
            GCNLayer(hidden if layer == 0 else width, width) for layer in range(layers)
        )


class DenseDualChannel(nn.Module):
    """A dual-channel network whose feature layers read all earlier maps of both channels.

    The head reads all maps. Parameters have the same names as in ``DualChannel``.
    """

    def __init__(self, shape: GraphShape, settings: DenseNetwork = DenseNetwork()) -> None:  # noqa: B008
        super().__init__()
        width, hidden, layers = settings.width, settings.hidden, settings.layers
        self.activate, self.structure_maps = settings.activate, settings.structure_maps
        self.embed = InputLinear(shape.features, hidden)
        self.layers = nn.ModuleList(
            GINLayer(2 * (hidden + layer * width), width) for layer in range(layers)
        )
        self.structure = NarrowStructureChannel(shape.structure, hidden, width, layers)
        self.mix = nn.Linear(2 * (hidden + layers * width), hidden)
        self.hidden = nn.Linear(hidden, hidden)
        self.classify = nn.Linear(hidden, shape.classes)
        self.dropout = Dropout(settings.dropout)

    def forward(self, batch: Batch) -> Tensor:  # [graphs, classes]
        features = [self.embed(batch.features)]  # x⁰ … xˡ, each [nodes, hidden or width]
        structures = [self.structure.embed(batch.structure)]  # s⁰ … sˡ
        for feature_layer, structure_layer in zip(self.layers, self.structure.layers, strict=True):
            inputs = torch.cat(features + structures, dim=1)
            if self.activate == "inputs":
                features.append(feature_layer(self._h(inputs), batch.whole))
            else:
                features.append(self._h(feature_layer(inputs, batch.whole)))
            structure = structure_layer(structures[-1], batch.whole)
            structures.append(
                self._h(structure) if self.structure_maps == "relu" else structure.tanh_()
            )
        nodes = self.mix(torch.cat(features + structures, dim=1))  # [nodes, hidden]
        pooled = self.hidden(graph_sums(nodes, batch)).relu_()  # [graphs, hidden]
        logits: Tensor = self.classify(self.dropout(pooled))
        return logits

    def _h(self, values: Tensor) -> Tensor:
        return self.dropout.after(torch.relu, values)
