r"""Neighbours that a subgraph lacks: how many, and what they look like (FedSage+'s NeighGen).

Nodes are hidden at random, and from what is left the generator learns to tell what was hidden:

.. math::
    z_v = \mathrm{SAGE}(v), \quad \tilde n_v = \operatorname{relu}(w^\top z_v), \quad
    \tilde x_v^p = W (z_v + \epsilon_p), \; \epsilon_p \sim \mathcal N(0, \text{noise}^2), \\
    L_d = \operatorname{mean}_v \mathrm{smooth}_{L_1}(\tilde n_v - n_v), \qquad
    L_f = \operatorname{mean}_{v, p \le n_v} \min_{u \text{ hidden near } v}
    \lVert \tilde x_v^p - x_u \rVert^2
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data.graphs.node_graph import NodeGraph
from ramet.models.layers import SAGELayer
from ramet.models.shape import NodeShape


@dataclass(frozen=True)
class Impaired:
    """A graph without its hidden nodes, and what it lacks because of that."""

    graph: NodeGraph
    lacks: Tensor  # [visible nodes] how many neighbours are hidden
    hidden: Tensor  # [Σ lacks, features] of the hidden neighbours, by the node that lacks them


def impaired(graph: NodeGraph, share: float) -> Impaired:
    """Hide a share of the nodes, drawn by PyTorch."""
    hide = torch.rand(graph.nodes).to(graph.labels.device) < share
    visible = (~hide).nonzero().flatten()
    place = (~hide).cumsum(0) - 1
    one = torch.cat([graph.left, graph.right]).long()
    other = torch.cat([graph.right, graph.left]).long()
    cut = ~hide[one] & hide[other]
    owners, order = place[one[cut]].sort(stable=True)
    return Impaired(
        graph=graph.inside(visible),
        lacks=torch.bincount(owners, minlength=visible.numel()),
        hidden=graph.features[other[cut][order]],
    )


class NeighbourGenerator(nn.Module):
    """Encoder, count and features of missing neighbours; at most ``most`` for each node.

    Parameters: ``layers.0``, ``layers.1``, ``count``, ``draw``.
    """

    def __init__(
        self, shape: NodeShape, hidden: int = 64, most: int = 5, noise: float = 0.1
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(SAGELayer(width, hidden) for width in (shape.features, hidden))
        self.count = nn.Linear(hidden, 1)
        self.draw = nn.Linear(hidden, shape.features)
        nn.init.zeros_(self.draw.weight)  # until it has learned something, it draws nothing
        nn.init.zeros_(self.draw.bias)
        self.most, self.noise = most, noise

    def embed(self, graph: NodeGraph) -> Tensor:  # [nodes, hidden]
        x = graph.features
        for layer in self.layers:
            x = layer(x, graph.whole).relu()
        return x

    def counts(self, embedded: Tensor) -> Tensor:  # [nodes]
        found: Tensor = self.count(embedded).squeeze(1).relu()
        return found

    def neighbours(self, embedded: Tensor, owners: Tensor) -> Tensor:  # [owners, features]
        """One for each entry of ``owners``."""
        noise = torch.randn((owners.numel(), embedded.size(1)))
        made: Tensor = self.draw(embedded[owners] + self.noise * noise.to(embedded.device))
        return made

    @torch.no_grad()
    def mended(self, graph: NodeGraph) -> NodeGraph:
        """The graph, and behind its nodes those that were generated."""
        embedded = self.embed(graph)
        counts = self.counts(embedded).round().clamp(max=self.most).long()
        owners = torch.repeat_interleave(counts)
        return graph.with_neighbours(owners, self.neighbours(embedded, owners))

    def losses(self, impaired: Impaired) -> tuple[Tensor, Tensor]:
        """L_d and L_f."""
        lacks = impaired.lacks
        embedded = self.embed(impaired.graph)
        of_counts = functional.smooth_l1_loss(self.counts(embedded), lacks.to(embedded.dtype))
        owners = torch.repeat_interleave(lacks.clamp(max=self.most))
        if not owners.numel():
            return of_counts, of_counts.new_zeros(())
        made = self.neighbours(embedded, owners)
        return of_counts, distances_to_nearest(made, owners, impaired).mean()


def distances_to_nearest(made: Tensor, owners: Tensor, impaired: Impaired) -> Tensor:  # [made]
    """Squared distance of each made neighbour to the nearest that its owner really lacks."""
    lacks = impaired.lacks
    starts = lacks.cumsum(0) - lacks
    choices = lacks[owners]  # [made] how many there are to compare with
    row = torch.repeat_interleave(choices)
    within = torch.arange(row.numel(), device=row.device) - (choices.cumsum(0) - choices)[row]
    candidates = starts[owners][row] + within
    distances = (made.detach()[row] - impaired.hidden[candidates]).square().sum(dim=1)
    nearest = distances.new_full((made.size(0),), torch.inf).scatter_reduce(
        0, row, distances, "amin"
    )
    at_nearest = torch.where(distances == nearest[row], candidates, impaired.hidden.size(0))
    chosen = torch.full_like(choices, impaired.hidden.size(0)).scatter_reduce(
        0, row, at_nearest, "amin"
    )
    return (made - impaired.hidden[chosen]).square().sum(dim=1)
