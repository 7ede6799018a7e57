"""Link stealing (He et al., 2021): nodes that are linked get similar predictions.

Linked nodes often have similar features, which an attacker may know without any model. So each link
is compared with a pair that is not linked, has one node in common with it and is as similar in its
features. Features alone then give an AUC of 0.5, and what exceeds it is due to the model.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional

from ramet.data import NodeGraph
from ramet.leak.intervals import Ranked
from ramet.leak.labels import similarity
from ramet.randomness import Randomness
from ramet.tasks import NodeSamples, Target

_MOST = 500
"""Links per site."""


@dataclass(frozen=True)
class Pairs:
    """Links of a site without common nodes, and as many pairs that are not linked."""

    linked: Tensor  # [2, pairs]
    apart: Tensor  # [2, pairs]


def pairs(samples: NodeSamples, client: str, seed: int) -> Pairs:
    graph = samples.graph
    order = torch.randperm(
        graph.links, generator=Randomness(seed, client, 0).generator("order of links")
    )
    left, right = graph.left.long()[order].tolist(), graph.right.long()[order].tolist()
    used: set[int] = set()
    linked: list[tuple[int, int]] = []
    for one, other in zip(left, right, strict=True):
        if one != other and not {one, other} & used and len(linked) < _MOST:
            linked.append((one, other))
            used |= {one, other}
    unit = functional.normalize(graph.features.float())
    neighbours = _neighbours(graph)
    taken: set[int] = set()
    apart, kept = [], []
    for one, other in linked:
        similarity = unit @ unit[one]
        distance = (similarity - similarity[other]).abs()
        distance[[one, other, *neighbours[one], *taken]] = torch.inf
        nearest = int(distance.argmin())
        if torch.isfinite(distance[nearest]):
            taken.add(nearest)
            kept.append((one, other))
            apart.append((one, nearest))
    return Pairs(_ends(kept), _ends(apart))


def _ends(found: list[tuple[int, int]]) -> Tensor:  # [2, pairs]
    return torch.tensor(found, dtype=torch.int64).reshape(-1, 2).T


def _neighbours(graph: NodeGraph) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in range(graph.nodes)]
    for one, other in zip(graph.left.tolist(), graph.right.tolist(), strict=True):
        found[one].append(other)
        found[other].append(one)
    return found


def alone(graph: NodeGraph) -> NodeGraph:
    """The nodes, each its own neighbour, for networks without self loops."""
    each = torch.arange(graph.nodes, dtype=graph.left.dtype)
    return graph.with_links(each, each)


def stolen(
    models: Mapping[str, nn.Module],
    graphs: Mapping[str, NodeGraph],
    chosen: Mapping[str, Pairs],
    target: Target,
    with_links: bool,
) -> list[Ranked]:
    """How similar the predictions for linked and for other pairs are.

    ``with_links`` are predictions of the site, which computes with its links. Otherwise the
    attacker computes them from the nodes' features alone.
    """
    ranked = []
    for client, model in models.items():
        graph = graphs[client]
        outputs = _outputs(model, graph if with_links else alone(graph))
        linked, apart = (
            similarity(target, outputs, ends).numpy()
            for ends in (chosen[client].linked, chosen[client].apart)
        )
        ranked.append(Ranked(linked, apart))
    return [one for one in ranked if one.usable]


@torch.inference_mode()
def _outputs(model: nn.Module, graph: NodeGraph) -> Tensor:
    outputs: Tensor = model.eval()(graph).double().nan_to_num(0.0)
    return outputs
