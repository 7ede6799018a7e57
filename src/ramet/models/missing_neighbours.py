r"""FedSage+'s NeighGen: generates the neighbours that are missing in a subgraph.

Nodes are hidden at random, and the generator learns to predict them from the visible ones:

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
    """A graph without its hidden nodes, and the neighbours that its nodes are missing."""

    graph: NodeGraph
    missing: Tensor  # [visible nodes] number of hidden neighbours
    hidden: Tensor  # [Σ missing, features] of the hidden neighbours, ordered by visible node


def impaired(graph: NodeGraph, share: float) -> Impaired:
    """Hide a random share of the nodes, drawn from PyTorch's global generator."""
    hide = torch.rand(graph.nodes).to(graph.labels.device) < share
    visible = (~hide).nonzero().flatten()
    index = (~hide).cumsum(0) - 1
    one = torch.cat([graph.left, graph.right]).long()
    other = torch.cat([graph.right, graph.left]).long()
    cut = ~hide[one] & hide[other]
    owners, order = index[one[cut]].sort(stable=True)
    return Impaired(
        graph=graph.subgraph(visible),
        missing=torch.bincount(owners, minlength=visible.numel()),
        hidden=graph.features[other[cut][order]],
    )


class NeighbourGenerator(nn.Module):
    """Predicts the number and features of missing neighbours, at most ``most`` per node.

    Parameters: ``layers.0``, ``layers.1``, ``count``, ``draw``.
    """

    def __init__(
        self, shape: NodeShape, hidden: int = 64, most: int = 5, noise: float = 0.1
    ) -> None:
        super().__init__()
        self.layers = nn.ModuleList(SAGELayer(width, hidden) for width in (shape.features, hidden))
        self.count = nn.Linear(hidden, 1)
        self.draw = nn.Linear(hidden, shape.features)
        nn.init.zeros_(self.draw.weight)  # an untrained generator draws zero features
        nn.init.zeros_(self.draw.bias)
        self.most, self.noise = most, noise

    def embed(self, graph: NodeGraph) -> Tensor:  # [nodes, hidden]
        x = graph.features
        for layer in self.layers:
            x = layer(x, graph.whole).relu()
        return x

    def counts(self, embedded: Tensor) -> Tensor:  # [nodes]
        counts: Tensor = self.count(embedded).squeeze(1).relu()
        return counts

    def neighbours(self, embedded: Tensor, owners: Tensor) -> Tensor:  # [owners, features]
        """Generate a neighbour for each entry of ``owners``."""
        noise = torch.randn((owners.numel(), embedded.size(1)))
        generated: Tensor = self.draw(embedded[owners] + self.noise * noise.to(embedded.device))
        return generated

    @torch.no_grad()
    def mended(self, graph: NodeGraph) -> NodeGraph:
        """Return the graph with generated nodes appended."""
        embedded = self.embed(graph)
        counts = self.counts(embedded).round().clamp(max=self.most).long()
        owners = torch.repeat_interleave(counts)
        return graph.with_neighbours(owners, self.neighbours(embedded, owners))

    def losses(self, impaired: Impaired) -> tuple[Tensor, Tensor]:
        """Return L_d and L_f."""
        missing = impaired.missing
        embedded = self.embed(impaired.graph)
        count_loss = functional.smooth_l1_loss(self.counts(embedded), missing.to(embedded.dtype))
        owners = torch.repeat_interleave(missing.clamp(max=self.most))
        if not owners.numel():
            return count_loss, count_loss.new_zeros(())
        generated = self.neighbours(embedded, owners)
        return count_loss, distances_to_nearest(generated, owners, impaired).mean()


def distances_to_nearest(
    generated: Tensor, owners: Tensor, impaired: Impaired
) -> Tensor:  # [generated]
    """Squared distance of each generated node to its owner's nearest hidden neighbour."""
    missing = impaired.missing
    starts = missing.cumsum(0) - missing
    choices = missing[owners]  # [generated] number of hidden neighbours to compare with
    row = torch.repeat_interleave(choices)
    within = torch.arange(row.numel(), device=row.device) - (choices.cumsum(0) - choices)[row]
    candidates = starts[owners][row] + within
    distances = (generated.detach()[row] - impaired.hidden[candidates]).square().sum(dim=1)
    nearest = distances.new_full((generated.size(0),), torch.inf).scatter_reduce(
        0, row, distances, "amin"
    )
    at_nearest = torch.where(distances == nearest[row], candidates, impaired.hidden.size(0))
    chosen = torch.full_like(choices, impaired.hidden.size(0)).scatter_reduce(
        0, row, at_nearest, "amin"
    )
    return (generated - impaired.hidden[chosen]).square().sum(dim=1)
