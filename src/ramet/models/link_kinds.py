r"""Which kind a link is of: clustering of links by what their two ends look like.

A link is :math:`z_{uv} = [h_u \| h_v]` and goes to the centre with the largest cosine. The norm of
z does not change which that is, and the dot product splits by end: with the unit centres
:math:`\hat\varphi_c = [\hat\varphi_c^l \| \hat\varphi_c^r]`,

.. math:: \arg\max_c \; P_{uc} + Q_{vc}, \qquad P = H \hat\Phi_l^\top, \quad Q = H \hat\Phi_r^\top,

and the sum of a cluster's links is counts(k × n) · H. So nothing of size links × width is made.
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable

import torch
from torch import Tensor
from torch.nn import functional

from ramet.data import NodeGraph

LINKS_AT_ONCE = 2**19
SEEDED_FROM = 10_000


@runtime_checkable
class FindsLinkKinds(Protocol):
    """A model that can say which kind it takes each link for."""

    cluster: bool
    """Whether it finds the kinds itself instead of reading them."""

    def eval(self) -> object: ...

    def link_kinds(self, graph: NodeGraph) -> Tensor: ...


def assign(nodes: Tensor, left: Tensor, right: Tensor, centres: Tensor) -> Tensor:  # [links]
    """The kind of each link; centres that are all zero belong to no kind and get none."""
    width = nodes.size(1)
    unit = functional.normalize(centres)
    by_left, by_right = nodes @ unit[:, :width].T, nodes @ unit[:, width:].T  # [nodes, k]
    by_left = by_left.masked_fill(unset(centres), -torch.inf)
    kinds = torch.empty(left.numel(), dtype=torch.uint8, device=left.device)
    for start in range(0, left.numel(), LINKS_AT_ONCE):
        chunk = slice(start, start + LINKS_AT_ONCE)
        score = by_left.index_select(0, left[chunk]).add_(by_right.index_select(0, right[chunk]))
        kinds[chunk] = score.argmax(dim=1)
    return kinds


def means(nodes: Tensor, left: Tensor, right: Tensor, kinds: Tensor, centres: Tensor) -> Tensor:
    """Each kind's mean link; a kind without any keeps its centre."""
    count = centres.size(0)
    links = torch.bincount(kinds, minlength=count)
    sums = [_counts(ends, kinds, nodes.size(0), count) @ nodes for ends in (left, right)]
    fresh = torch.cat(sums, dim=1) / links.clamp(min=1).unsqueeze(1)
    return torch.where((links > 0).unsqueeze(1), fresh, centres)


def _counts(ends: Tensor, kinds: Tensor, nodes: int, count: int) -> Tensor:  # [k, nodes]
    """How often each node is this end of a link of each kind."""
    found = torch.zeros(nodes * count, dtype=torch.int64, device=ends.device)
    for start in range(0, ends.numel(), LINKS_AT_ONCE):
        chunk = slice(start, start + LINKS_AT_ONCE)
        place = ends[chunk].long() * count + kinds[chunk]
        found += torch.bincount(place, minlength=nodes * count)
    return found.view(nodes, count).T.float()


def unset(centres: Tensor) -> Tensor:  # [k]
    return (centres == 0).all(dim=1)


def seeded(nodes: Tensor, left: Tensor, right: Tensor, centres: Tensor) -> Tensor:
    """Fill centres that are unset with links far from the others, as k-means++ draws them.

    Distances are those of a sample of links; draws come from PyTorch's generator. With fewer
    different links than centres some stay unset.
    """
    empty = unset(centres).nonzero().flatten().tolist()
    if not empty or not left.numel():
        return centres
    some = torch.randint(left.numel(), (min(SEEDED_FROM, left.numel()),))
    links = torch.cat([nodes[left[some].long()], nodes[right[some].long()]], dim=1)
    unit, filled = functional.normalize(links), centres.clone()
    for place in empty:
        known = functional.normalize(filled[~unset(filled)])
        far = (
            (1 - (unit @ known.T).amax(dim=1)).clamp(min=0).double()
            if known.size(0)
            else torch.ones(unit.size(0), dtype=torch.float64)
        )
        far[unset(links)] = 0
        if far.sum() <= 1e-9:
            break
        filled[place] = links[torch.multinomial(far, 1)[0]]
    return filled
