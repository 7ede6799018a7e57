"""A paper's printed figure beside ours."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from statistics import fmean, stdev
from typing import Literal, get_args

from pydantic import BaseModel, ConfigDict

Kind = Literal["accuracy", "auc", "mrr", "tensors", "model_kb", "payload_kb"]
POINTS, ROUNDING = 2.0, 0.005
"""How far ours may be off unless the figure says otherwise: scores in points, sizes in KB."""
_ALLOWED = {"accuracy": POINTS, "auc": POINTS, "mrr": POINTS, "tensors": 0.0}


class Placed(BaseModel):
    """Which setting the runs are of, with its options, and the name of their folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    setting: str
    setting_options: Mapping[str, str] = {}
    folder: str = ""

    @property
    def place(self) -> str:
        return self.folder or self.setting


class Printed(Placed):
    """One cell of a paper's table, and how it is run here."""

    table: str
    method: str
    kind: Kind
    value: float
    std: float | None = None
    options: Mapping[str, str] = {}
    activation: str | None = None
    client: str | None = None
    shape: tuple[int, int] | None = None  # node and link types of data that we do not have
    allowed: float
    note: str = ""
    beside: str = ""
    """Why ours stands beside the printed figure and is not judged by it."""

    @property
    def label(self) -> str:
        """As `ramet compare` writes a method with its options, the activation last."""
        pairs = [f"{key}={value}" for key, value in self.options.items()]
        pairs += [f"activation={self.activation}"] if self.activation else []
        return ",".join([self.method, *pairs])

    @property
    def name(self) -> str:
        """The label with the partition, where the setting has one of its own."""
        partition = self.setting_options.get("partition")
        return f"{self.label},partition={partition}" if partition else self.label

    @staticmethod
    def parse(method: str, cell: Mapping[str, object]) -> Printed:
        """A `[[printed]]` entry of an experiment's file: exactly one of the kinds is its figure."""
        facts = dict(cell)
        (kind,) = (kind for kind in get_args(Kind) if kind in facts)
        value = facts.pop(kind)
        allowed = facts.pop("tolerance", _ALLOWED.get(kind, ROUNDING))
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
    def judged(self) -> Literal["inside", "outside", "beside", "not run"]:
        if self.off is None:
            return "not run"
        if self.printed.beside:
            return "beside"
        return "inside" if abs(self.off) <= self.printed.allowed else "outside"


@dataclass(frozen=True)
class Order:
    """Two printed figures that are further apart than both spreads, and whether ours are too."""

    place: str
    higher: str
    lower: str
    gap: float | None  # ours, in points

    @property
    def holds(self) -> bool | None:
        return None if self.gap is None else self.gap > 0


def orders(verdicts: Sequence[Verdict], yardsticks: Sequence[Verdict] = ()) -> list[Order]:
    """The clear orders among figures of one place; yardsticks belong to every place."""
    return [
        Order(
            next(v.printed.place for v in (above, below) if v not in yardsticks),
            above.printed.name,
            below.printed.name,
            None if above.mean is None or below.mean is None else above.mean - below.mean,
        )
        for above, below in permutations([*yardsticks, *verdicts], 2)
        if not (above in yardsticks and below in yardsticks)
        and above.printed.value - below.printed.value
        > (above.printed.std or 0.0) + (below.printed.std or 0.0)
    ]
