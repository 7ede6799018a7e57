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
    tensors: Sequence[Sequence[int]] = ()
    """Round by round what each client sent up, in the order of the result's clients; 0 if it took
    no part. Empty where all sent all, and in older stories."""

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

    @property
    def score(self) -> float:
        """Last round's test score of the server's model on all data; without one, the clients'."""
        scores = self.result["scores"]
        return float(scores.get("overview", scores)["test"])

    @property
    def reciprocal_rank(self) -> float:
        """As ``score``, of runs that predict links."""
        scores = self.result["scores"]
        return float(scores.get("overview", scores.get("besides"))["mrr"])

    def is_of(self, command: str, code: str | None) -> bool:
        """Whether this command, with this SHA-256 of a method of one's own, would tell the same."""
        return self.command == command and self.versions.get("method") == code

    def text(self) -> str:
        """JSON with a line per round, so that changes can be read."""
        facts = asdict(self)
        rounds, tensors = facts.pop("rounds"), facts.pop("tensors")
        lists = {"tensors": tensors, "rounds": rounds} if tensors else {"rounds": rounds}
        tail = "".join(f',\n "{name}": [\n{_lines(told)}\n ]' for name, told in lists.items())
        return json.dumps(facts, indent=1).removesuffix("\n}") + tail + "\n}\n"

    @staticmethod
    def parse(text: str) -> Story:
        return Story(**json.loads(text))


def _lines(told: Sequence[Sequence[float]]) -> str:
    return ",\n".join(f"  {json.dumps(line)}" for line in told)


def curve(records: Sequence[Record]) -> list[list[float]]:
    """A line per round, as a story tells it."""
    return [
        [record.round, *(round(value, _DIGITS) for value in _told(record))] for record in records
    ]


def _told(record: Record) -> list[float]:
    losses = [numbers["loss"] for numbers in record.trained.values()]
    told = [record.mean("val"), record.mean("test"), fmean(losses)]
    return [*told, record.overview["test"]] if record.overview else told
