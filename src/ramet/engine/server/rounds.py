"""The server's side of a run, independent of how messages are carried.

In each round clients train and reply, and replies are merged as they arrive. The merge is sent with
the next message, and each client evaluates it before training again. After the last round a closing
message delivers the final merge to all clients, or to the final clients. There is one message per
client and round, and each array crosses the wire once up and once down per round. Nothing is sent
before round 1: server and sites draw the same initial arrays from the run's seed. Only if they are
another run's, and sites are on their own, round 1 begins like the others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import nn

from ramet.engine.server.collector import Collector, Direct, Quorum
from ramet.engine.server.journal import Journal, Observer, committed, history_of
from ramet.engine.server.paced import RealPace, SimulatedPace
from ramet.engine.server.plan import Plan, Schedule
from ramet.engine.server.questions import Summands, WholeReplies
from ramet.engine.server.regions import Regional
from ramet.engine.server.rules import ServerRules
from ramet.engine.server.state import MERGING, RunState
from ramet.engine.server.tally import Tally
from ramet.engine.server.wire import Wire
from ramet.engine.store.timed_snapshots import ServerSnapshots
from ramet.metrics import Record
from ramet.payload import Arrays
from ramet.rules.method import AssembledMethod
from ramet.rules.server import CPU, no_network

if TYPE_CHECKING:
    from ramet.secure.charter import Charter  # needs an extra

ServerEvaluation: TypeAlias = Callable[[Arrays], Mapping[str, float]]
"""Evaluates the server's arrays on all data at once."""


@dataclass(frozen=True)
class Rounds:
    """A run: a method over clients, for a number of rounds, from a seed."""

    method: AssembledMethod
    clients: Sequence[str]
    rounds: int
    seed: int
    start: Arrays
    snapshots: ServerSnapshots
    evaluate_server: ServerEvaluation | None = None
    quorum: int = 1
    """The number of valid replies that an exchange needs."""
    retry_delays: Sequence[float] = ()
    """Seconds before each time that missing clients are asked again."""
    patience: int | None = None
    """Stop after this many rounds without a better mean validation score; None for no early stop.
    """
    norm_bound: float | None = None
    """Refuse replies that are further than this from what was sent; None for no bound."""
    extras: Mapping[str, Arrays] = field(default_factory=dict)
    """The start values of extras, by the exchange in which clients send them."""
    buffers: frozenset[str] = frozenset()
    """Names of shared arrays that are not trained."""
    network: Callable[[], nn.Module] = no_network
    """Builds a network for rules that train at the server, for ``shape`` and on ``device``."""
    shape: Any = None
    device: torch.device = CPU
    secure: bool = False
    """Whether the server learns sums only."""
    charter: Charter | None = None
    """What the sites have signed, in a run that they verify."""
    config: str = ""
    """A digest of the settings that all members of a secure sum have in common."""
    final_clients: Sequence[str] | None = None
    """The clients that get the final merge at the end; None for all."""
    sends_start: bool = False
    """Whether clients are sent ``start`` in round 1, because they cannot draw it from the seed."""
    regions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The clients of each regional coordinator. The wire is to the regions then; without any, it is
    to the clients."""

    def run(self, wire: Wire, observe: Observer, earlier: Iterable[Record] = ()) -> str:
        """Run the remaining rounds, and return the SHA-256 of everything that was learned.

        ``earlier`` are the records of the rounds that have been evaluated.
        """
        history = history_of(earlier, self.clients, self.method.task.scale)
        journal = Journal(
            self.method, self.rounds, history, observe, self.snapshots, self._overview
        )
        state, collector, tally = self._restored(), self.collector(wire), Tally()
        for plan in self._schedule.remaining(state.step, history):
            if not plan.train:  # clients keep no state after it
                self.snapshots.write()
            asked, fold = self.rules.asked(state, plan), self.rules.fold(plan)
            state, tally = collector.collect(plan, state, asked, fold)
            state = self.rules.step(state, plan, fold.result(), tally.scores)
            state = journal.entered(state, plan, tally)
            self._commit(state, plan, tally)
        return state.sha256(tally.digests)

    def deliver(self, wire: Wire, client: str) -> None:
        """Deliver the final merge to a client that the closing message did not go to."""
        state, plan = self._restored(), self._schedule.closing(self.resume_point())
        self.direct(wire).collect(plan, state, {client: ()}, self.rules.fold(plan))

    def resume_point(self) -> int:
        """The last round with an undamaged snapshot; 0 if there is none."""
        last = self.snapshots.latest_valid()
        return last.step // self._schedule.exchanges if last else 0

    def collector(self, wire: Wire) -> Collector:
        """How replies come in, which depends on the settings of the run."""
        if self.charter is None:
            return self._unverified(wire)
        from ramet.engine.server.chained import LINKS, Chained, ChainWire  # needs an extra

        chain = ChainWire(wire, self.charter, self.snapshots.folder / LINKS)
        return Chained(self._unverified(chain), chain)

    def _unverified(self, wire: Wire) -> Collector:
        if self.regions:
            return Regional(self.rules, self.regions, wire, self._quorum)
        direct, pace = self.direct(wire), self.method.pace
        if self.secure:
            from ramet.engine.server.masked_sums import MaskedSums  # needs an extra

            return MaskedSums(
                direct, self.config, lambda state: self.snapshots.save(state.snapshot())
            )
        if pace is not None:
            return SimulatedPace(direct, pace) if pace.simulated else RealPace(direct, pace)
        return direct

    def direct(self, wire: Wire) -> Direct:
        """Asks the clients themselves."""
        summands = Summands(self.rules, in_clear=not self.secure)
        whole = WholeReplies(self.rules, self.norm_bound)
        check = whole if self.method.summation is None else summands
        return Direct(self.rules, check, wire, self._quorum)

    @cached_property
    def rules(self) -> ServerRules:
        return ServerRules(
            self.method,
            self.start,
            self.extras,
            self.clients,
            self.seed,
            self.final_clients,
            self.sends_start,
            self.buffers,
            self.network,
            self.shape,
            self.device,
        )

    @property
    def _schedule(self) -> Schedule:
        return Schedule(self.method, self.rounds, self.patience)

    @property
    def _quorum(self) -> Quorum:
        return Quorum(self.quorum, self.retry_delays)

    def _commit(self, state: RunState, plan: Plan, tally: Tally) -> None:
        if plan.train:
            self.snapshots.save(state.snapshot())
            committed(plan, tally)

    def _overview(self, state: RunState) -> Mapping[str, float]:
        if self.evaluate_server is None:
            return {}
        return self.evaluate_server(self.rules.new_client(state[MERGING]))

    def _restored(self) -> RunState:
        saved = self.snapshots.latest_valid()
        return self.rules.first_state() if saved is None else RunState.restored(saved)
