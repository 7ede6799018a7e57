"""A budget of differential privacy, as `--dp` gives it."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Annotated, Literal, TypeAlias

from pydantic import Field
from pydantic.dataclasses import dataclass

from ramet.errors import RametError, unknown
from ramet.options import build

Unit: TypeAlias = Literal["graph", "site", "link"]
Delta: TypeAlias = Annotated[float, Field(gt=0, lt=1)]
Epsilon: TypeAlias = Annotated[float, Field(gt=0, allow_inf_nan=False)]
Clip: TypeAlias = Annotated[float, Field(ge=1e-6, le=1e6)]
"""Far from the ends of float32, where noise would be rounded away or sums overflow."""
SENSITIVITY: Mapping[Unit, float] = {"graph": 1, "site": 2, "link": math.sqrt(2)}
"""By how many clipping norms one unit changes what noise is added to.

A graph's gradient is in a sum or not. A site always answers, which everybody sees: with other data,
its update may point the opposite way. A link is in the sums of both its ends, in rows of norm 1.
"""
COLLUDERS = 1
"""How many sites of a sum may collude by default. Each member knows its own noise, so with none the
budget would not hold against other members."""
_NAMES = ("unit", "epsilon", "delta", "clip", "survivors", "colluders")
_REFUSED = {
    "node": "a node's features reach its neighbours' gradients, so that clipping does not bound "
    "what one node changes",
}


@dataclass(frozen=True)
class NoiseShare:
    """Among how many sites the noise of a sum is divided.

    Args:
        survivors: the smallest number of sites in a sum.
        colluders: how many of them may tell their noise, or add none.
    """

    survivors: int = 1
    colluders: int = 0

    @property
    def parts(self) -> int:
        """How many sites' parts make up all of the noise."""
        return self.survivors - self.colluders


@dataclass(frozen=True)
class Budget:
    """What a run may reveal of one unit: (ε, δ)-differential privacy for each client.

    Args:
        unit: what is protected: one training graph, all data of a site, or one link.
        epsilon: ε of the whole run.
        delta: δ of the whole run.
        clip: the largest L2 norm of one graph's gradient, or of a site's update; links have none.
        survivors: the smallest number of sites in a secure sum; None for all sites of the run.
        colluders: how many of these sites may collude; None for the default.
    """

    unit: Unit
    epsilon: Epsilon
    delta: Delta
    clip: Clip = 1.0
    survivors: Annotated[int, Field(ge=1)] | None = None
    colluders: Annotated[int, Field(ge=0)] | None = None

    @staticmethod
    def parse(text: str) -> Budget:
        """Read `unit=graph,epsilon=4,delta=1e-5,clip=1`."""
        given = dict(piece.strip().partition("=")[::2] for piece in text.split(","))
        for name in given:
            if name not in _NAMES:
                raise unknown("option of --dp", name, _NAMES)
        unit = given.get("unit")
        if unit in _REFUSED:
            raise RametError(
                f"--dp unit={unit} is not offered: {_REFUSED[unit]}, and no noise can be accounted "
                "for. Use unit=site, unit=graph for graph classification, or unit=link for the "
                "links of node classification."
            )
        budget = build(Budget, given, "--dp")
        if budget.unit == "link" and budget.clip != 1:
            raise RametError(
                "--dp unit=link has no clip: the rows that are summed have norm 1. Leave it out."
            )
        return budget

    def __str__(self) -> str:
        text = f"unit={self.unit},epsilon={self.epsilon:g},delta={self.delta:g},clip={self.clip:g}"
        text += "" if self.survivors is None else f",survivors={self.survivors}"
        return text + ("" if self.colluders is None else f",colluders={self.colluders}")

    @property
    def assumed_colluders(self) -> int:
        return COLLUDERS if self.colluders is None else self.colluders

    def share(self, sites: int) -> NoiseShare:
        """Among how many sites noise is divided in a secure sum of a run with so many."""
        return NoiseShare(self.survivors or sites, self.assumed_colluders)

    @property
    def sentence(self) -> str:
        return guarantee(self.unit, self.epsilon, self.delta)


_PROTECTED = {
    "graph": "each training graph",
    "site": "each site's update",
    "link": "each link",
}


def guarantee(unit: str, epsilon: float, delta: float, share: NoiseShare | None = None) -> str:
    """A guarantee of differential privacy in words, for tables and reports."""
    promised = f"ε = {epsilon:g}, δ = {delta:g} for {_PROTECTED[unit]}"
    if share is None:
        return promised
    return f"{promised} in sums of {share.survivors} or more sites, {share.colluders} colluding"
