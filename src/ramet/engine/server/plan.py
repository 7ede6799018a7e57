"""The exchanges of a run: which come next, and when the run ends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from logging import INFO

from ramet.events import log_event
from ramet.metrics.best import History
from ramet.rules.extras import TRAINING, Stage
from ramet.rules.method import AssembledMethod, step_of


@dataclass(frozen=True)
class Plan:
    """One exchange: a message to each client that is asked, and its reply."""

    round: int
    last: int
    """The last round that clients train; after it, they only evaluate."""
    step: int
    """The number of the exchange in the run."""
    stage: Stage | None = None
    """The stage before training, if this is the exchange of one."""
    candidates: Sequence[int] = ()
    """Earlier rounds that may be the best; clients keep their models of these."""
    begins: bool = False
    """Whether it is the first exchange of a round."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """Notes that are the same in all messages."""
    quorum: int | None = None
    """How many valid replies it needs; None for the quorum of the run."""

    @property
    def train(self) -> bool:
        """Whether clients send something to merge; in the closing exchange they only evaluate."""
        return self.round <= self.last

    @property
    def trains(self) -> bool:
        return self.train and self.stage is None

    @property
    def exchange(self) -> str:
        """Its name among the exchanges of a round."""
        return TRAINING if self.stage is None else self.stage.name


@dataclass(frozen=True)
class Schedule:
    """Rounds with their stages, until the last or until validation no longer improves."""

    method: AssembledMethod
    rounds: int
    patience: int | None = None
    """Stop after this many rounds without a better mean validation score; None for no early stop.
    """

    @property
    def exchanges(self) -> int:
        """The number of exchanges in a round."""
        return len(self.method.stages) + 1

    def remaining(self, done: int, history: History) -> Iterator[Plan]:
        """The exchanges after the step ``done``; the last one only delivers and evaluates.

        ``history`` is read before each of them, so that evaluations in between count.
        """
        last, stages_done = divmod(done, self.exchanges)
        for number in range(last + 1, self.rounds + 1):
            if self._stops_early(history, last):
                break
            begins = True
            for stage in self.method.stages[stages_done:]:
                if stage.in_round(number):
                    step = step_of(self.method, number, stage)
                    yield Plan(number, self.rounds, step, stage, begins=begins)
                    begins = False
            step, stages_done, last = step_of(self.method, number), 0, number
            candidates = history.candidates()
            yield Plan(number, self.rounds, step, candidates=candidates, begins=begins)
        yield self.closing(last, history.candidates())

    def closing(self, last: int, candidates: Sequence[int] = ()) -> Plan:
        return Plan(last + 1, last, step_of(self.method, last + 1), candidates=candidates)

    def _stops_early(self, history: History, last: int) -> bool:
        """Whether the validation score has not improved for too many rounds."""
        if self.patience is None or history.rounds_since_best() < self.patience:
            return False
        facts = {"best": history.best.round, "patience": self.patience}
        log_event(INFO, "stopped early", round=last, **facts)
        return True
