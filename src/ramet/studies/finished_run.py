"""A compact record of a finished run, sufficient for all tables and figures."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from ramet.experiment import SPLIT_SEED, MethodSpec, RunFolder
from ramet.experiment.run_models import predictor
from ramet.metrics import Round, Summary
from ramet.metrics.metric import Metric
from ramet.metrics.summary import tensors_sent
from ramet.tasks import Predictions, TargetTask


class Draw(NamedTuple):
    """What was drawn for a run; runs of two methods with the same draw are compared in pairs."""

    split_seed: int
    seed: int


FinishedRuns: TypeAlias = Mapping[str, Mapping[Draw, "FinishedRun"]]
"""Runs by the method's label, then by split seed and seed."""
Predictor: TypeAlias = Callable[[str], Mapping[str, Predictions]]
"""What a client's model predicts for its held-out samples, by part of its split."""
_NOT_A_VERSION = ("run", "started")


@dataclass(frozen=True)
class FinishedRun:
    """The command of a run, the versions that it ran with, and its results."""

    label: str  # the method with its options, as `ramet compare` takes it
    command: str
    date: str
    versions: Mapping[str, str]
    summary: Summary
    rounds: Sequence[Round]
    tensors: Sequence[Sequence[int]] = ()
    """Tensors that each client sent up in each round, in the summary's order of clients; 0 for a
    client that took no part. Empty if all clients always sent the same number, and in old files."""
    folder: RunFolder | None = field(default=None, compare=False)
    """The run's folder, if this was read from one."""

    @staticmethod
    def of(folder: RunFolder) -> FinishedRun | None:
        """Read a run from its folder; None if it is not finished."""
        summary = folder.summary()
        if summary is None:
            return None
        settings, about, records = folder.experiment().settings, folder.about(), folder.records()
        sent = tensors_sent(records, list(summary.scores.clients))
        return FinishedRun(
            label=settings.label,
            command=settings.command,
            date=about["started"][:10],
            versions={key: value for key, value in about.items() if key not in _NOT_A_VERSION}
            | ({"method": settings.code} if settings.code else {}),
            summary=summary,
            rounds=[Round.of(record) for record in records],
            tensors=sent if len({count for line in sent for count in line}) > 1 else (),
            folder=folder,
        )

    @staticmethod
    def parse(text: str) -> FinishedRun:
        facts = json.loads(text)
        summary = Summary.model_validate(facts.pop("result"))
        rounds = [Round(*row) for row in facts.pop("rounds")]
        return FinishedRun(summary=summary, rounds=rounds, **facts)

    def text(self) -> str:
        """JSON with a line per round, for readable diffs."""
        facts = {
            "label": self.label,
            "command": self.command,
            "date": self.date,
            "versions": dict(self.versions),
            "result": self.summary.to_json(),
        }
        lists: dict[str, Sequence[Sequence[float]]] = (
            {"tensors": self.tensors} if self.tensors else {}
        )
        lists["rounds"] = [one.row() for one in self.rounds]
        tail = "".join(f',\n "{name}": [\n{_lines(rows)}\n ]' for name, rows in lists.items())
        return json.dumps(facts, indent=1).removesuffix("\n}") + tail + "\n}\n"

    @property
    def seed(self) -> int:
        return self.summary.seed

    @property
    def draw(self) -> Draw:
        return Draw(self.split_seed, self.seed)

    @property
    def setting(self) -> str:
        return self.summary.setting

    @property
    def spec(self) -> MethodSpec:
        return MethodSpec.parse(self.label)

    @property
    def split_seed(self) -> int:
        return int(next(iter(self._given("--split-seed")), SPLIT_SEED))

    @property
    def patience(self) -> int | None:
        given = self._given("--patience")
        return int(given[0]) if given else None

    @property
    def options(self) -> dict[str, str]:
        """Options of the method and of the setting."""
        pairs = (pair.partition("=") for pair in self._given("--set"))
        return {key: value for key, _, value in pairs}

    def _given(self, flag: str) -> list[str]:
        """The values of a flag in the command."""
        return [value for word, value in pairwise(shlex.split(self.command)) if word == flag]

    @property
    def on_all_data(self) -> float | None:
        """Test score of the server's model on all data, at its best validation round there."""
        return self.summary.scores.overview.get("test_at_best_val")

    @property
    def score(self) -> float:
        """Last test score of the server's model on all data; without one, the mean over clients."""
        scores = self.summary.scores
        return scores.overview.get("test", scores.test)

    @property
    def mrr(self) -> float:
        """Like ``score``, for the mean reciprocal rank of link prediction."""
        scores = self.summary.scores
        return (scores.overview or scores.besides)["mrr"]

    @property
    def chosen_metric(self) -> Metric | None:
        """The metric of the run's predictions; None if they cannot be repeated."""
        task = self.folder and self.folder.experiment().scored_method.task
        return task.chosen if isinstance(task, TargetTask) else None

    def predictor(self) -> Predictor | None:
        """What the run's models predict for their clients; None without the run's folder."""
        return None if self.folder is None else predictor(self.folder)

    def left_out_clients(self, last: int | None = None) -> bool:
        """Whether clients took no part in some round, or in some of the last ones.

        In a round without any tensor, all of them trained and none was asked for one.
        """
        rows = self.tensors if last is None else self.tensors[-last:]
        return any(0 in row and any(row) for row in rows)

    def matches(self, command: str, code: str | None) -> bool:
        """Whether this is the run of a command, with user-defined code of this SHA-256."""
        return self.command == command and self.versions.get("method") == code


def _lines(rows: Sequence[Sequence[float]]) -> str:
    return ",\n".join(f"  {json.dumps(row)}" for row in rows)
