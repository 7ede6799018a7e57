"""Clients that hold parts of one heterogeneous graph, with more links of some relations."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, ClassVar, Literal, TypeAlias

import torch
from pydantic import Field, PositiveInt
from pydantic.dataclasses import dataclass as checked_dataclass
from torch import Tensor

from ramet.data import ClientData
from ramet.data.link_split import LinkSplit, Negatives
from ramet.data.own.schema import TaskName
from ramet.data.sources.hetero_graphs import (
    AmazonSplit,
    read_amazon,
    read_hgb,
    read_planted_hetero,
)
from ramet.errors import RametError
from ramet.options import Share
from ramet.partition.base import Reading, Setting

Partition = Literal["biased", "even", "central"]
Specialities: TypeAlias = Literal["some", "any"]
AmazonSpecialities: TypeAlias = Literal["some", "any", "fedda"]
_FEDDA_CLIENTS = 32
_FEDDA_VIEWED = frozenset({1, 3, 9, 14, 15, 17, 18, 21, 22, 24, 28, 30, 31})
_FEDDA_BOUGHT = frozenset({2, 6, 8, 11, 16, 25, 26, 29, 32})
"""The clients of FedDA's files, counted from 1, that have many links of this relation only."""


@checked_dataclass(frozen=True)
class Sampling:
    """How the training links of one graph are sampled for each client; clients may share links.

    ==============  ==========================================================================
    biased          a client specialises in some random relations: at least one and not all, or
                    with ``specialities=any`` perhaps all. It gets the share ``own`` of their
                    links and ``other`` of all other links, and only learns to predict its
                    specialities. ``fedda``: those of the clients in FedDA's files of Amazon
    even            every client gets the share ``own`` of all links and learns all relations
    central         one client holds everything: the baseline without federation
    ==============  ==========================================================================
    """

    partition: Partition = "biased"
    clients: PositiveInt = 8
    own: Share = 0.3
    other: Share = 0.05


@dataclass(frozen=True)
class HeteroSetting(Setting):
    """One graph whose training links are sampled for each client.

    All clients hold all nodes. All are evaluated on the same held-out links of all relations.
    Messages pass over the client's own graph, or over the whole graph for the server's model.
    """

    about: str
    source: str
    read: Callable[[Reading], LinkSplit]
    sampling: Sampling
    specialities: AmazonSpecialities = "some"
    rounds: int = 40
    task: ClassVar[TaskName] = "link-prediction"

    @cached_property
    def clients(self) -> tuple[str, ...]:
        count = 1 if self.sampling.partition == "central" else self.sampling.clients
        return tuple(f"part-{number:04d}" for number in range(count))

    @cached_property
    def source_of(self) -> dict[str, str]:
        return dict.fromkeys(self.clients, self.source)

    def client_data(self, client: str, reading: Reading) -> LinkSplit:
        whole = self.read(reading)
        if self.sampling.partition == "central":
            return whole
        draw = torch.Generator().manual_seed(1000 * reading.split_seed + self.clients.index(client))
        special = self._special(client, len(whole.content.relations), draw)
        chosen = sample_links(whole.content.links.kinds, special, self.sampling, draw)
        learned = special[whole.content.links.kinds[chosen]]
        if not learned.any():
            raise RametError(
                f"{client} gets no links to learn from. Use more links or a larger `own`."
            )
        return ClientData(whole.content.with_links(chosen, learned), whole.split)

    def _special(self, client: str, relations: int, draw: torch.Generator) -> Tensor:
        if self.sampling.partition == "even":
            return torch.ones(relations, dtype=torch.bool)
        if self.specialities == "fedda":
            return fedda_specialities(self.clients.index(client) + 1)
        return (any_specialities if self.specialities == "any" else specialities)(relations, draw)

    def overview(self, reading: Reading) -> LinkSplit:
        return self.read(reading)


def specialities(relations: int, draw: torch.Generator) -> Tensor:
    """[relations] whether a client specialises in each: at least one, and not all of several."""
    count = int(torch.randint(1, max(relations, 2), (1,), generator=draw))
    special = torch.zeros(relations, dtype=torch.bool)
    special[torch.randperm(relations, generator=draw)[:count]] = True
    return special


def any_specialities(relations: int, draw: torch.Generator) -> Tensor:
    """[relations] whether a client specialises in each: every choice but none is as likely."""
    choice = int(torch.randint(1, 2**relations, (1,), generator=draw))
    return torch.tensor([bool(choice >> relation & 1) for relation in range(relations)])


def fedda_specialities(number: int) -> Tensor:
    """[2] whether a client of FedDA's files, counted from 1, specialises in viewed and bought."""
    if number > _FEDDA_CLIENTS:
        raise RametError(
            f"FedDA's files have {_FEDDA_CLIENTS} clients. Use no more, or specialities=any."
        )
    return torch.tensor([number not in _FEDDA_BOUGHT, number not in _FEDDA_VIEWED])


def sample_links(
    kinds: Tensor, special: Tensor, sampling: Sampling, draw: torch.Generator
) -> Tensor:
    """Indices of a client's links: a share of each relation's, sampled without replacement."""
    parts = []
    for relation in range(special.numel()):
        members = (kinds == relation).nonzero().flatten()
        count = round((sampling.own if special[relation] else sampling.other) * members.numel())
        parts.append(members[torch.randperm(members.numel(), generator=draw)[:count]])
    return torch.cat(parts).sort().values


def amazon(
    sampling: Sampling = Sampling(),  # noqa: B008 (frozen)
    negatives: Negatives = "random",
    specialities: AmazonSpecialities = "some",
    split: AmazonSplit = "gatne",
) -> HeteroSetting:
    return HeteroSetting(
        "Amazon products viewed or bought together",
        f"{split}:amazon",
        lambda reading: read_amazon(reading.data, reading.split_seed, negatives, split),
        sampling,
        specialities,
    )


def typed_parts_of(about: str, name: str) -> Callable[..., HeteroSetting]:
    """A setting with parts of one of HGB's graphs."""

    def setting(
        sampling: Sampling = Sampling(),  # noqa: B008 (frozen)
        negatives: Negatives = "random",
        specialities: Specialities = "some",
    ) -> HeteroSetting:
        return HeteroSetting(
            about,
            f"hgb:{name.upper()}",
            lambda reading: read_hgb(reading.data, name, reading.split_seed, negatives),
            sampling,
            specialities,
        )

    return setting


def planted_hetero(
    sampling: Sampling = Sampling(clients=4),  # noqa: B008 (frozen)
    negatives: Negatives = "random",
    nodes: PositiveInt = 200,
    relations: PositiveInt = 3,
    links: PositiveInt = 800,
    graph_seed: Annotated[int, Field(ge=0)] = 5,
    specialities: Specialities = "some",
) -> HeteroSetting:
    return HeteroSetting(
        "generated graph, two node types, a rule per relation",
        f"planted:{nodes}",
        lambda reading: read_planted_hetero(
            nodes, relations, links, graph_seed, reading.split_seed, negatives
        ),
        sampling,
        specialities,
    )
