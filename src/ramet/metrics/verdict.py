"""A paper's printed figure beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, stdev
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

Kind = Literal["accuracy", "model_kb", "payload_kb"]
POINTS, ROUNDING = 2.0, 0.005
"""How far ours may be off unless the figure says otherwise: accuracy in points, sizes in KB."""


class Printed(BaseModel):
    """One cell of a paper's table, and how it is run here."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    table: str
    method: str
    setting: str
    kind: Kind
    value: float
    std: float | None = None
    options: Mapping[str, str] = {}
    client: str | None = None
    allowed: float
    note: str = ""

    @property
    def label(self) -> str:
        """As `ramet compare` writes a method with its options."""
        return ",".join([self.method, *(f"{key}={value}" for key, value in self.options.items())])

    @staticmethod
    def parse(method: str, cell: Mapping[str, object]) -> Printed:
        """A `[[printed]]` entry of an experiment's file: exactly one of the kinds is its figure."""
        facts = dict(cell)
        (kind,) = (kind for kind in get_args(Kind) if kind in facts)
        value = facts.pop(kind)
        allowed = facts.pop("tolerance", POINTS if kind == "accuracy" else ROUNDING)
        return Printed.model_validate(
            {"method": method, "kind": kind, "value": value, "allowed": allowed, **facts}
        )


@dataclass(frozen=True)
class Verdict:
    """Ours is a mean over runs, or one exact number, or not there yet."""

    printed: Printed
    ours: Sequence[float]

    @property
    def mean(self) -> float | None:
        return fmean(self.ours) if self.ours else None

    @property
    def spread(self) -> float | None:
        return stdev(self.ours) if len(self.ours) > 1 else None

    @property
    def off(self) -> float | None:
        return None if self.mean is None else self.mean - self.printed.value

    @property
    def inside(self) -> bool | None:
        return None if self.off is None else abs(self.off) <= self.printed.allowed
