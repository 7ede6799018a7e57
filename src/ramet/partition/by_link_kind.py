"""Clients that hold parts of one graph, divided by the kind of links."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated, ClassVar, Literal, TypeAlias

import torch
from pydantic import Field, PositiveInt
from torch import Tensor

from ramet.data import ClientData, NodeGraph, Split
from ramet.data.graphs.node_graph import edge_subgraph
from ramet.data.own.schema import TaskName
from ramet.data.sources.linked_kinds import read_acm_links, read_planted
from ramet.data.splits import node_fold_split
from ramet.errors import RametError
from ramet.options import Share
from ramet.partition.base import Reading, Setting
from ramet.run_options import SPLIT_SEED

Partition = Literal["distinct", "dominant", "balanced", "central"]
FOLDS = 10
Fold: TypeAlias = Annotated[int, Field(ge=0, lt=FOLDS)] | Literal["split"]
"""The fold for validation. With ``split``, several splits are the folds of one split."""


@dataclass(frozen=True)
class LinkSetting(Setting):
    """One graph whose links are distributed over the clients.

    ==============  ==========================================================================
    distinct        each client holds links of one kind only
    dominant        a share ``dominance`` of a kind's links goes to the clients of that kind,
                    the rest to the others
    balanced        every client gets about the same share of every kind
    central         one client holds everything: the baseline without federation
    ==============  ==========================================================================

    A client holds the end nodes of its links. The split into training, validation and test nodes is
    that of the whole graph, so no client trains on a node that another one tests on.
    """

    about: str
    source: str
    read: Callable[[Path], NodeGraph]
    partition: Partition
    parts: int
    dominance: float
    fold: Fold
    rounds: int = 100
    task: ClassVar[TaskName] = "node-classification"

    @cached_property
    def clients(self) -> tuple[str, ...]:
        count = 1 if self.partition == "central" else self.parts
        return tuple(f"part-{number:02d}" for number in range(count))

    @cached_property
    def source_of(self) -> dict[str, str]:
        return dict.fromkeys(self.clients, self.source)

    def client_data(self, client: str, reading: Reading) -> ClientData[NodeGraph, Split]:
        everything = self.overview(reading)
        if self.partition == "central":
            return everything
        whole, split = everything.content, everything.split
        number = self.clients.index(client)
        seed, _ = self._seed_and_fold(reading.split_seed)
        owners = deal(whole.kinds, self.partition, self.parts, self.dominance, seed)
        own = (owners == number).nonzero().flatten()
        if not own.numel():
            raise RametError(f"{client} gets no links. Use fewer clients or more links.")
        graph, nodes = edge_subgraph(whole, own)
        return ClientData(graph, split.restricted_to(nodes, whole.nodes))

    def overview(self, reading: Reading) -> ClientData[NodeGraph, Split]:
        whole = self.read(reading.data)
        seed, fold = self._seed_and_fold(reading.split_seed)
        return ClientData(whole, node_fold_split(whole.labels, seed, fold, FOLDS))

    def _seed_and_fold(self, split_seed: int) -> tuple[int, int]:
        """With ``fold=split``, split seeds 123 to 132 are the folds 0 to 9 of the split 123."""
        if self.fold != "split":
            return split_seed, self.fold
        fold = (split_seed - SPLIT_SEED) % FOLDS
        return split_seed - fold, fold


def deal(kinds: Tensor, partition: Partition, parts: int, dominance: float, seed: int) -> Tensor:
    """[links] index of the client that gets each link."""
    draw = torch.Generator().manual_seed(seed)
    count = int(kinds.max()) + 1
    if parts < count and partition != "balanced":
        raise RametError(
            f"{parts} clients are too few for {count} kinds of links when each client has its own "
            "kind. Use more clients or partition=balanced."
        )
    own_kinds = kind_of_client(parts, count)
    owners = torch.empty(kinds.numel(), dtype=torch.int64)
    for kind in range(count):
        links = (kinds == kind).nonzero().flatten()
        own = torch.tensor([1.0 if own_kind == kind else 0.0 for own_kind in own_kinds])
        weights = {
            "distinct": own,
            "balanced": torch.ones(parts),
            "dominant": dominance * own / own.sum().clamp(min=1)
            + (1 - dominance) * (1 - own) / (1 - own).sum().clamp(min=1),
        }[partition]
        owners[links] = torch.multinomial(weights, links.numel(), replacement=True, generator=draw)
    return owners


def kind_of_client(parts: int, kinds: int) -> list[int]:
    """Assign a kind to each client: for ten clients and four kinds 2, 3, 2, 3, as in FedLIT."""
    ends = [parts * (kind + 1) // kinds for kind in range(kinds)]
    return [next(kind for kind, end in enumerate(ends) if part < end) for part in range(parts)]


def acm_links(
    partition: Partition = "distinct",
    clients: PositiveInt = 10,
    dominance: Share = 0.7,
    subjects: PositiveInt = 30_000,
    noise: PositiveInt = 30_000,
    fold: Fold = 0,
) -> LinkSetting:
    return LinkSetting(
        "ACM papers, four hidden kinds of links",
        "hgb:ACM",
        lambda root: read_acm_links(root, subjects, noise),
        partition,
        clients,
        dominance,
        fold,
    )


def planted_links(
    partition: Partition = "distinct",
    clients: PositiveInt = 10,
    dominance: Share = 0.7,
    nodes: PositiveInt = 2_000,
    links: PositiveInt = 5_000,
    contrast: Share = 1.0,
    graph_seed: Annotated[int, Field(ge=0)] = 5,
    fold: Fold = 0,
) -> LinkSetting:
    return LinkSetting(
        "generated graph, four planted kinds of links",
        f"planted:{nodes}",
        lambda root: read_planted(nodes, links, contrast, graph_seed),  # noqa: ARG005
        partition,
        clients,
        dominance,
        fold,
    )
