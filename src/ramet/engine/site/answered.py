"""What a site has answered over all its runs: one file, on disk before a reply leaves.

The coordinator chooses the name of a run. A limit that began anew with each name would be none, so
the limits of a site's policy hold for the totals.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from ramet.engine.messages import asks_for_scores, kind_of
from ramet.engine.secure_messages import STEP, request_digest
from ramet.engine.site.run_entries import RunEntries
from ramet.payload import Payload
from ramet.policy import Policy, Totals

NAME = "answered.json"
_RECENT = 16
"""A message that is sent again is one of the last few of its run: a round has only some steps."""


class AnsweredRun(BaseModel):
    """What a site has answered in one run."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    messages: dict[str, int] = {}
    """The number of different messages that were answered, by kind."""
    evaluations: int = 0
    """How many of them asked for scores: to train after round 1, and to evaluate."""
    recent: tuple[str, ...] = ()
    """Digests of the last ones; the same message again is not another one."""
    bytes: int = 0

    @property
    def rounds(self) -> int:
        """A message of each kind belongs to a round, but a coordinator may send more of one."""
        return max(self.messages.values(), default=0)

    def with_message(self, kind: str, digest: str, evaluates: bool) -> AnsweredRun:
        if digest in self.recent:
            return self
        messages = {**self.messages, kind: self.messages.get(kind, 0) + 1}
        recent = (*self.recent, digest)[-_RECENT:]
        evaluations = self.evaluations + evaluates
        update = {"messages": messages, "recent": recent, "evaluations": evaluations}
        return self.model_copy(update=update)


@dataclass(frozen=True)
class Answered:
    """One run in a site's record of what it has answered.

    Args:
        path: the record, of all runs.
        run: the run's name.
    """

    path: Path
    run: str

    def begin(self, message: Payload, policy: Policy) -> None:
        """Add a message before its reply is computed; raise an error if it exceeds the policy."""
        step = message.notes.get(STEP, "")
        kind = step or kind_of(message)
        evaluates = not step and asks_for_scores(message)
        digest = f"{kind} {request_digest(message)}"
        self._change(lambda entry: entry.with_message(kind, digest, evaluates), policy)

    def leave(self, count: int, policy: Policy) -> None:
        """Add the bytes of a reply before it leaves; raise an error if they exceed the policy."""
        self._change(lambda entry: entry.model_copy(update={"bytes": entry.bytes + count}), policy)

    def _change(self, change: Callable[[AnsweredRun], AnsweredRun], policy: Policy) -> None:
        entries = _entries(self.path)
        with entries.locked():
            runs = entries.read()
            before = runs.get(self.run)
            runs[self.run] = change(before or AnsweredRun())
            policy.check_totals(_totals(runs))
            if runs[self.run] != before:
                entries.write(runs)


def answered_totals(path: Path) -> Totals:
    """What a site has answered so far, from its record."""
    return _totals(_entries(path).read())


def _entries(path: Path) -> RunEntries[AnsweredRun]:
    return RunEntries(path, AnsweredRun, "what it has answered", "run")


def _totals(runs: Mapping[str, AnsweredRun]) -> Totals:
    entries = runs.values()
    return Totals(
        runs=len(runs),
        rounds=sum(entry.rounds for entry in entries),
        evaluations=sum(entry.evaluations for entry in entries),
        bytes=sum(entry.bytes for entry in entries),
    )
