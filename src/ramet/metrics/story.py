"""A finished run in short: enough for every table and figure, small enough to keep for good."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import fmean
from typing import Any, TypeAlias

from ramet.metrics.record import Record

_DIGITS = 6
Stories: TypeAlias = Mapping[str, Mapping[int, "Story"]]
"""By method's label, then by seed."""


@dataclass(frozen=True)
class Story:
    """What was run, with what, and what came out."""

    label: str  # the method with its options, as `ramet compare` takes it
    command: str
    date: str
    versions: Mapping[str, str]
    result: Mapping[str, Any]
    rounds: Sequence[Sequence[float]]
    """Round, mean validation and test score; in newer ones also the mean loss and, where the
    server's model was judged on all data, its test score there."""

    @property
    def seed(self) -> int:
        return int(self.result["seed"])

    @property
    def setting(self) -> str:
        return str(self.result["setting"])

    @property
    def on_all_data(self) -> float | None:
        """Test score of the server's model on all data, at its best validation there."""
        found: float | None = self.result["scores"].get("overview", {}).get("test_at_best_val")
        return found

    def text(self) -> str:
        """JSON with a line per round, so that changes can be read."""
        facts = asdict(self)
        lines = ",\n".join(f"  {json.dumps(told)}" for told in facts.pop("rounds"))
        head = json.dumps(facts, indent=1).removesuffix("\n}")
        return f'{head},\n "rounds": [\n{lines}\n ]\n}}\n'

    @staticmethod
    def parse(text: str) -> Story:
        return Story(**json.loads(text))


def curve(records: Sequence[Record]) -> list[list[float]]:
    """A line per round, as a story tells it."""
    return [
        [record.round, *(round(value, _DIGITS) for value in _told(record))] for record in records
    ]


def _told(record: Record) -> list[float]:
    losses = [numbers["loss"] for numbers in record.trained.values()]
    told = [record.mean("val"), record.mean("test"), fmean(losses)]
    return [*told, record.overview["test"]] if record.overview else told
