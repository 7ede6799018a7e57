"""Clients that are hospitals, each with the brain scans of its own people."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from ramet.data import ClientData, GraphBlock, Split
from ramet.data.own.schema import TaskName
from ramet.data.sources.connectomes import People, connectomes, read_people
from ramet.data.splits import joined, node_split
from ramet.partition.base import Reading, Setting

_TOGETHER = "all-hospitals"
_HOSPITALS = (
    *("caltech", "cmu", "kki", "leuven-1", "leuven-2", "max-mun", "nyu", "ohsu", "olin", "pitt"),
    *("sbl", "sdsu", "stanford", "trinity", "ucla-1", "ucla-2", "um-1", "um-2", "usm", "yale"),
)
_AGES = (17.0, 8.0)
"""The mean and the deviation of the ages, in whole years, by which every site scales its own."""


@dataclass(frozen=True)
class AbideSetting(Setting):
    """People with and without autism, scanned at twenty hospitals.

    A graph is a person, its nodes are the same 200 regions of the brain everywhere.
    """

    density: float
    centre: Literal["site", "none"]
    together: bool
    predict: Literal["autism", "age"] = "autism"
    about: str = "brain scans at the 20 hospitals of ABIDE I; suits --network linear"
    rounds: int = 50

    @property
    def task(self) -> TaskName:
        return "graph-classification" if self.predict == "autism" else "graph-regression"

    @property
    def mixing(self) -> str | None:  # type: ignore[override]
        """A training person is in the mean that is subtracted from everybody at the site."""
        if self.centre == "none":
            return None
        return (
            "a site's mean is subtracted from all of its people (--set centre=none leaves it out)"
        )

    @property
    def clients(self) -> tuple[str, ...]:
        return (_TOGETHER,) if self.together else _HOSPITALS

    @property
    def source_of(self) -> dict[str, str]:
        return {client: f"ABIDE:{client}" for client in self.clients}

    def client_data(self, client: str, reading: Reading) -> ClientData[GraphBlock, Split]:
        """The people of one hospital or, in the same parts, of all."""
        everybody = read_people(reading.data)
        sites = [everybody.of(site) for site in (_HOSPITALS if self.together else (client,))]
        splits = [node_split(own.autism, reading.split_seed) for own in sites]
        pairs = torch.cat([self._centred(*one) for one in zip(sites, splits, strict=True)])
        labels = torch.cat([own.autism for own in sites])
        if self.predict == "age":
            labels = torch.cat([own.age for own in sites]).unsqueeze(1)
        linked = torch.cat([own.correlations for own in sites])
        block = connectomes(pairs, linked, labels, self.density)
        if self.predict == "age":
            block = replace(block, label_scale=torch.tensor(_AGES).unsqueeze(1))
        sizes = [own.autism.numel() for own in sites]
        return ClientData(reading.inputs.added_to(block), joined(splits, sizes))

    def _centred(self, own: People, split: Split) -> Tensor:  # [people, pairs]
        pairs = own.correlations.float()
        return pairs - pairs[split.train].mean(dim=0) if self.centre == "site" else pairs


def abide(
    density: Annotated[float, Field(gt=0, le=1)] = 0.1,
    centre: Literal["site", "none"] = "site",
    together: bool = False,
    predict: Literal["autism", "age"] = "autism",
) -> AbideSetting:
    """``density``: share of the pairs of regions that are linked, the most correlated ones.

    ``centre``: subtract the mean correlations of a site's training people (``site``), or nothing.
    ``together``: one client with everybody, to compare with. ``predict``: autism or control, or age
    as a number, in the same parts.
    """
    return AbideSetting(density, centre, together, predict)
