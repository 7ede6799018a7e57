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
_NAMES = ("unit", "epsilon", "delta", "clip")
_REFUSED = {
    "node": "a node's features reach its neighbours' gradients, so that clipping does not bound "
    "what one node changes",
}


@dataclass(frozen=True)
class Budget:
    """What a run may reveal of one unit: (ε, δ)-differential privacy for each client.

    Args:
        unit: what is protected: one training graph, all data of a site, or one link.
        epsilon: ε of the whole run.
        delta: δ of the whole run.
        clip: the largest L2 norm of one graph's gradient, or of a site's update; links have none.
    """

    unit: Unit
    epsilon: Epsilon
    delta: Delta
    clip: Clip = 1.0

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
        return f"unit={self.unit},epsilon={self.epsilon:g},delta={self.delta:g},clip={self.clip:g}"

    @property
    def sentence(self) -> str:
        return guarantee(self.unit, self.epsilon, self.delta)


_PROTECTED = {
    "graph": "each training graph",
    "site": "each site's update",
    "link": "each link",
}


def guarantee(unit: str, epsilon: float, delta: float) -> str:
    """A guarantee of differential privacy in words, for tables and reports."""
    return f"ε = {epsilon:g}, δ = {delta:g} for {_PROTECTED[unit]}"
