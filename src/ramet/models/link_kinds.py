r"""Clustering of links into kinds, by the embeddings of their two ends.

A link is :math:`z_{uv} = [h_u \| h_v]` and is assigned to the centre with the largest cosine. The
norm of z does not affect the arg max, and the dot product splits by end. With the unit centres
:math:`\hat\varphi_c = [\hat\varphi_c^l \| \hat\varphi_c^r]`,

.. math:: \arg\max_c \; P_{uc} + Q_{vc}, \qquad P = H \hat\Phi_l^\top, \quad Q = H \hat\Phi_r^\top,

and the sum of a cluster's links is counts(k × n) · H. So nothing of size links × width is
allocated.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional

from ramet.data.graphs.node_graph import NodeGraph

LINKS_AT_ONCE = 2**19
_SEEDING_SAMPLE = 10_000


@runtime_checkable
class FindsLinkKinds(Protocol):
    """A model that assigns a kind to each link."""

    cluster: bool
    """Whether it finds the kinds by clustering instead of reading the true ones."""

    def eval(self) -> object: ...

    def link_kinds(self, graph: NodeGraph) -> Tensor: ...


def assign(nodes: Tensor, left: Tensor, right: Tensor, centres: Tensor) -> Tensor:  # [links]
    """Assign each link to a kind. Centres that are all zero are unset and get no links."""
    width = nodes.size(1)
    unit = functional.normalize(centres)
    by_left, by_right = nodes @ unit[:, :width].T, nodes @ unit[:, width:].T  # [nodes, k]
    by_left = by_left.masked_fill(unset(centres), -torch.inf)

    def nearest(one: Tensor, other: Tensor) -> Tensor:
        score = by_left.index_select(0, one).add_(by_right.index_select(0, other))
        return score.argmax(dim=1)

    if torch.compiler.is_compiling():  # a program is for any number of links
        return nearest(left, right)
    kinds = torch.empty(left.numel(), dtype=torch.uint8, device=left.device)
    for start in range(0, left.numel(), LINKS_AT_ONCE):
        chunk = slice(start, start + LINKS_AT_ONCE)
        kinds[chunk] = nearest(left[chunk], right[chunk])
    return kinds


def means(nodes: Tensor, left: Tensor, right: Tensor, kinds: Tensor, centres: Tensor) -> Tensor:
    """The mean link of each kind. A kind without links keeps its centre."""
    count = centres.size(0)
    links = torch.bincount(kinds, minlength=count)
    sums = [_counts(ends, kinds, nodes.size(0), count) @ nodes for ends in (left, right)]
    new = torch.cat(sums, dim=1) / links.clamp(min=1).unsqueeze(1)
    return torch.where((links > 0).unsqueeze(1), new, centres)


def _counts(ends: Tensor, kinds: Tensor, nodes: int, count: int) -> Tensor:  # [k, nodes]
    """How often each node is this end of a link of each kind."""
    counts = torch.zeros(nodes * count, dtype=torch.int64, device=ends.device)
    for start in range(0, ends.numel(), LINKS_AT_ONCE):
        chunk = slice(start, start + LINKS_AT_ONCE)
        index = ends[chunk].long() * count + kinds[chunk]
        counts += torch.bincount(index, minlength=nodes * count)
    return counts.view(nodes, count).T.float()


def unset(centres: Tensor) -> Tensor:  # [k]
    return (centres == 0).all(dim=1)


def seeded(nodes: Tensor, left: Tensor, right: Tensor, centres: Tensor) -> Tensor:
    """Draw unset centres from the links, far from the other centres, as k-means++ does.

    Candidates are a sample of the links. Draws use PyTorch's global generator. With fewer different
    links than centres, some centres stay unset.
    """
    empty = unset(centres).nonzero().flatten().tolist()
    if not empty or not left.numel():
        return centres
    sample = torch.randint(left.numel(), (min(_SEEDING_SAMPLE, left.numel()),))
    links = torch.cat([nodes[left[sample].long()], nodes[right[sample].long()]], dim=1)
    unit, filled = functional.normalize(links), centres.clone()
    for kind in empty:
        known = functional.normalize(filled[~unset(filled)])
        distances = (
            (1 - (unit @ known.T).amax(dim=1)).clamp(min=0).double()
            if known.size(0)
            else torch.ones(unit.size(0), dtype=torch.float64)
        )
        distances[unset(links)] = 0
        if distances.sum() <= 1e-9:
            break
        filled[kind] = links[torch.multinomial(distances, 1)[0]]
    return filled
