"""A finished run in short: enough for every table and figure, small enough to keep for good."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
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
    rounds: Sequence[tuple[int, float, float]]  # round, mean validation and mean test score

    @property
    def seed(self) -> int:
        return int(self.result["seed"])

    @property
    def setting(self) -> str:
        return str(self.result["setting"])

    def text(self) -> str:
        """JSON with a line per round, so that changes can be read."""
        facts = asdict(self)
        lines = ",\n".join(f"  {json.dumps(told)}" for told in facts.pop("rounds"))
        head = json.dumps(facts, indent=1).removesuffix("\n}")
        return f'{head},\n "rounds": [\n{lines}\n ]\n}}\n'

    @staticmethod
    def parse(text: str) -> Story:
        facts = json.loads(text)
        facts["rounds"] = [tuple(told) for told in facts["rounds"]]
        return Story(**facts)


def curve(records: Sequence[Record]) -> list[tuple[int, float, float]]:
    """Mean validation and test score, round by round."""
    return [
        (r.round, round(r.mean("val"), _DIGITS), round(r.mean("test"), _DIGITS)) for r in records
    ]
