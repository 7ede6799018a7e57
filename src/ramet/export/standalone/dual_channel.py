"""Networks with a channel of features and a channel of structure, in PyTorch and PyG.

``DualChannel`` is FedStar's network, ``DenseDualChannel`` is FedDense's.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch_geometric.nn import GCNConv, GINConv, global_add_pool
from torch_geometric.utils import degree, unbatch_edge_index


class StructureChannel(nn.Module):
    """A linear layer and a GCN over structure encodings."""

    def __init__(self, structure: int, hidden: int, widths: list[tuple[int, int]]) -> None:
        super().__init__()
        self.embed = nn.Linear(structure, hidden)
        self.layers = nn.ModuleList(GCNConv(i, o, add_self_loops=False) for i, o in widths)


class _TwoChannels(nn.Module):
    """What both networks have in common: the two channels and the head."""

    def __init__(
        self,
        features: int,
        structure: int,
        classes: int,
        hidden: int,
        read: int,
        gin_widths: list[tuple[int, int]],
        gcn_widths: list[tuple[int, int]],
        dropout: float,
    ) -> None:
        super().__init__()
        self.embed = nn.Linear(features, hidden)
        self.layers = nn.ModuleList(
            GINConv(nn.Sequential(nn.Linear(i, o), nn.ReLU(), nn.Linear(o, o)))
            for i, o in gin_widths
        )
        self.structure = StructureChannel(structure, hidden, gcn_widths)
        self.mix = nn.Linear(read, hidden)
        self.hidden = nn.Linear(hidden, hidden)
        self.classify = nn.Linear(hidden, classes)
        self.dropout = nn.Dropout(dropout)

    def _head(self, nodes: Tensor, batch: Tensor) -> Tensor:
        graphs = batch.max().item() + 1
        pooled = self.hidden(global_add_pool(self.mix(nodes), batch, graphs)).relu()
        logits: Tensor = self.classify(self.dropout(pooled))
        return logits


class DualChannel(_TwoChannels):
    """A GIN over features whose layers also read a GCN over structure encodings.

    Args:
        features: width of the node features.
        structure: width of the structure encodings.
        classes: number of classes.
        hidden: width of all layers.
        layers: number of convolutions in each channel.
        dropout: rate in training.
    """

    def __init__(
        self,
        features: int,
        structure: int,
        classes: int,
        hidden: int,
        layers: int,
        dropout: float = 0.5,
    ) -> None:
        gin, gcn = [(2 * hidden, hidden)] * layers, [(hidden, hidden)] * layers
        super().__init__(features, structure, classes, hidden, 2 * hidden, gin, gcn, dropout)

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, structure: Tensor) -> Tensor:
        """Return the logits, [graphs, classes].

        ``edge_index`` has each link in both directions and no self loops; ``batch`` is the graph of
        each node, as in PyG's ``Batch``; ``structure`` is from ``structure_encoding``.
        """
        looped = with_loops(edge_index, x.size(0))
        x, s = self.embed(x), self.structure.embed(structure)
        for gin, gcn in zip(self.layers, self.structure.layers, strict=True):
            x = self.dropout(gin(torch.cat([x, s], dim=1), edge_index).relu())
            s = gcn(s, looped).tanh()
        return self._head(torch.cat([x, s], dim=1), batch)


class DenseDualChannel(_TwoChannels):
    """A dual-channel network whose feature layers read all earlier maps of both channels.

    Args:
        features: width of the node features.
        structure: width of the structure encodings.
        classes: number of classes.
        hidden: width of the first map of each channel, and of the head.
        width: of all other maps.
        layers: number of convolutions in each channel.
        activate: ``maps``: relu after each convolution; ``inputs``: before it.
        structure_maps: activation of the structure channel, ``tanh`` or ``relu``.
        dropout: rate in training.
    """

    def __init__(
        self,
        features: int,
        structure: int,
        classes: int,
        hidden: int,
        width: int,
        layers: int,
        activate: str = "maps",
        structure_maps: str = "tanh",
        dropout: float = 0.5,
    ) -> None:
        gin = [(2 * (hidden + layer * width), width) for layer in range(layers)]
        gcn = [(hidden if layer == 0 else width, width) for layer in range(layers)]
        read = 2 * (hidden + layers * width)
        super().__init__(features, structure, classes, hidden, read, gin, gcn, dropout)
        self.activate, self.structure_maps = activate, structure_maps

    def forward(self, x: Tensor, edge_index: Tensor, batch: Tensor, structure: Tensor) -> Tensor:
        """Return the logits, [graphs, classes]; the arguments are those of ``DualChannel``."""
        looped = with_loops(edge_index, x.size(0))
        features, structures = [self.embed(x)], [self.structure.embed(structure)]
        for gin, gcn in zip(self.layers, self.structure.layers, strict=True):
            inputs = torch.cat(features + structures, dim=1)
            if self.activate == "inputs":
                features.append(gin(self.dropout(inputs.relu()), edge_index))
            else:
                features.append(self.dropout(gin(inputs, edge_index).relu()))
            s = gcn(structures[-1], looped)
            structures.append(self.dropout(s.relu()) if self.structure_maps == "relu" else s.tanh())
        return self._head(torch.cat(features + structures, dim=1), batch)


def with_loops(edge_index: Tensor, nodes: int) -> Tensor:
    loops = torch.arange(nodes, device=edge_index.device)
    return torch.cat([edge_index, torch.stack([loops, loops])], dim=1)


def structure_encoding(
    edge_index: Tensor,
    batch: Tensor,
    degrees: int = 16,
    walk: int = 16,
    isolated_as_one: bool = False,
) -> Tensor:
    """Encode the structure around each node, [nodes, degrees + walk].

    First the degree, one-hot and capped at ``degrees``; all zero without links, unless
    ``isolated_as_one``. Then the probabilities that a random walk of 1, 2, … ``walk`` steps ends
    where it started.
    """
    nodes = batch.numel()
    capped = degree(edge_index[0], nodes).clamp(int(isolated_as_one), degrees)
    one_hot = (capped.unsqueeze(1) == torch.arange(1, degrees + 1)).float()
    returns, start = torch.zeros(nodes, walk), 0
    sizes = torch.bincount(batch).tolist()
    for size, links in zip(sizes, unbatch_edge_index(edge_index, batch), strict=False):
        returns[start : start + size] = _return_probabilities(links, size, walk)
        start += size
    return torch.cat([one_hot, returns], dim=1)


def _return_probabilities(edge_index: Tensor, nodes: int, walk: int) -> Tensor:  # [nodes, walk]
    step = torch.zeros(nodes, nodes, dtype=torch.float64)
    step[edge_index[0], edge_index[1]] = 1.0
    step = step / step.sum(dim=1, keepdim=True).clamp(min=1)
    result, power = torch.zeros(nodes, walk), torch.eye(nodes, dtype=torch.float64)
    for length in range(walk):
        power = power @ step
        result[:, length] = power.diagonal().float()
    return result
