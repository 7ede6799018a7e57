"""The server's side of a run, independent of how messages are carried.

In each round clients train and reply, and replies are merged as they arrive. The merge is sent with
the next message, and each client evaluates it before training again. After the last round a closing
message delivers the final merge to all clients, or to the final clients. There is one message per
client and round, and each array crosses the wire once up and once down per round. Nothing is sent
before round 1: server and sites draw the same initial arrays from the run's seed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from logging import ERROR, INFO, WARNING
from math import isnan
from typing import Any, TypeAlias

import torch
from torch import nn

from ramet.engine.check import (
    Range,
    distance_fault,
    due_numbers,
    fault,
    range_fault,
    summand_fault,
)
from ramet.engine.messages import request
from ramet.engine.secure_messages import context_digest
from ramet.engine.server.evaluations import Evaluations
from ramet.engine.server.exchange import Exchange
from ramet.engine.server.regions import RegionalSum, regional_facts, regional_request
from ramet.engine.server.rules import ReceivedExtras, ServerRules
from ramet.engine.server.state import HeldReply, InFlight, RunState
from ramet.engine.server.wire import Refused, Wire
from ramet.engine.store.checkpoint import Snapshots
from ramet.events import log_event
from ramet.metrics import Record
from ramet.metrics.best import History, best_of
from ramet.payload import Array, Arrays, Payload
from ramet.policy import expected_numbers
from ramet.randomness import Randomness
from ramet.rules.activation import Choice, Spared
from ramet.rules.extras import TRAINING, Stage
from ramet.rules.fixed_point import RingTotal, extra_sums, parameter_sums
from ramet.rules.merging import Merging, Reply
from ramet.rules.method import AssembledMethod, declared_extras, step_of, switchable_arrays
from ramet.rules.server import CPU, SERVER, no_network
from ramet.tasks import score_range

Observer: TypeAlias = Callable[[Record], None]
ServerEvaluation: TypeAlias = Callable[[Arrays], Mapping[str, float]]
"""Evaluates the server's arrays on all data at once."""


@dataclass(frozen=True)
class Rounds:
    """A run: a method over clients, for a number of rounds, from a seed.

    An exchange needs valid replies from ``quorum`` clients, or from all active clients if those are
    fewer. Otherwise the missing clients are asked again after each of ``retry_delays`` (seconds).
    If the quorum is still missed, the run fails and the round is not committed.
    """

    method: AssembledMethod
    clients: Sequence[str]
    rounds: int
    seed: int
    start: Arrays
    snapshots: Snapshots
    evaluate_server: ServerEvaluation | None = None
    quorum: int = 1
    retry_delays: Sequence[float] = ()
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
    config: str = ""
    """A digest of the settings that all members of a secure sum have in common."""
    final_clients: Sequence[str] | None = None
    """The clients that get the final merge at the end; None for all."""
    regions: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """The clients of each regional coordinator. The wire is to the regions then; without any, it is
    to the clients."""

    def resume_point(self) -> int:
        """The last round with an undamaged snapshot; 0 if there is none."""
        last = self.snapshots.latest_valid()
        return last.step // self._exchanges if last else 0

    @property
    def _exchanges(self) -> int:
        """The number of exchanges in a round."""
        return len(self.method.stages) + 1

    def run(self, wire: Wire, observe: Observer, earlier: Iterable[Record] = ()) -> str:
        """Run the remaining rounds, and return the SHA-256 of everything that was learned.

        ``earlier`` are the records of the rounds that have been evaluated.
        """
        evaluations = Evaluations.after(earlier, self.method, self.clients, self.snapshots)
        state, steps_done = self._restored()
        first, stages_done = divmod(steps_done, self._exchanges)
        activation = self.method.activation
        last = first
        for number in range(first + 1, self.rounds + 1):
            if self._stops_early(evaluations.history, last):
                break
            choice = self._choice(number)
            spared = activation.ask(state.activity, choice)
            busy = {*state.held, *state.in_flight}
            spared = {client: names for client, names in spared.items() if client not in busy}
            log_event(INFO, "round begun", round=number, rounds=self.rounds, asked=len(spared))
            for stage in self.method.stages[stages_done:]:
                if stage.in_round(number):
                    self._run_stage(stage, wire, spared, state, choice)
            stages_done = 0
            candidates = evaluations.history.candidates()
            if self.secure:
                sums, exchange = self._secure_sums(
                    wire, spared, state, number, self.rounds, candidates
                )
                merging = self._merge_sums(sums, state, choice)
            else:
                exchange = Exchange.after(state.traffic, number, self.rounds, candidates=candidates)
                replies = self._paced(self._replies(wire, spared, state, exchange), state, number)
                merging = self._merge(replies, state, choice)
            state.activity = activation.settle(state.activity, choice, exchange.scores)
            if state.pending:
                pending = {**state.pending, "rounds": self.rounds}
                record = Record(**pending, **exchange.evaluation_half())
                self._check_scores(record)
                evaluations.add(record)
                observe(record)
            state.traffic = {} if state.pending else exchange.uncounted_down()
            server_numbers = {"overview": self._overview(merging), "merging": dict(merging.numbers)}
            state.pending = {**exchange.training_half(), **server_numbers}
            state.last |= exchange.asked
            self.snapshots.save(state.snapshot(step_of(self.method, number)))
            log_event(INFO, "round committed", **exchange.commit_facts())
            last = number
        return self._close(last, wire, state, evaluations, observe)

    def _check_scores(self, record: Record) -> None:
        """Say at the beginning if sites keep their scores, as they may by their policies."""
        if record.round == 1 and isnan(record.mean("val")):
            reason = "no client has sent its scores: there is no best round and no early stop"
            log_event(WARNING, "no scores", round=record.round, reason=reason)

    def _stops_early(self, history: History, last: int) -> bool:
        """Whether the validation score has not improved for too many rounds."""
        if self.patience is None or history.rounds_since_best() < self.patience:
            return False
        facts = {"best": best_of(history.rounds).round, "patience": self.patience}
        log_event(INFO, "stopped early", round=last, **facts)
        return True

    def _close(
        self,
        last: int,
        wire: Wire,
        state: RunState,
        evaluations: Evaluations,
        observe: Observer,
    ) -> str:
        """Deliver the merge of the last round, and return the SHA-256 of the run."""
        for client, _ in wire.exchange(()) if state.in_flight else ():
            state.in_flight.pop(client)  # too late to be merged
        candidates = evaluations.history.candidates()
        final = dict.fromkeys(self.final_clients or self.clients, ())
        if self.secure:
            _, closing = self._secure_sums(wire, final, state, last + 1, last, candidates)
        else:
            closing = Exchange.after(state.traffic, last + 1, last, candidates=candidates)
            for _ in self._replies(wire, final, state, closing):
                pass
        failed = {**closing.failed, **state.pending["failed"]}
        pending = {**state.pending, "rounds": self.rounds, "failed": failed}
        record = Record(**pending, **closing.evaluation_half())
        evaluations.add(record)
        observe(record)
        return state.sha256(closing.digests)

    def deliver(self, wire: Wire, client: str) -> None:
        """Deliver the final merge to a client that the closing message did not go to."""
        state, _ = self._restored()
        last = self.resume_point()
        for _ in self._replies(wire, {client: ()}, state, Exchange(last + 1, last)):
            pass

    def _run_stage(
        self, stage: Stage, wire: Wire, spared: Spared, state: RunState, choice: Choice
    ) -> None:
        """Exchange the extras of a stage with the clients of the round."""
        exchange = Exchange(choice.round, self.rounds, stage=stage)
        replies = self._replies(wire, spared, state, exchange)
        if self.regions:
            sums = self._regional_sums(stage.name, replies)
            self._step_extras(stage.name, state, extra_sums(sums), choice)
        else:
            received = ReceivedExtras(self._extras_rule(stage.name))
            for _ in received.passing(replies):
                pass
            self._merge_extras(stage.name, state, received, choice)
        whole = Exchange.after(state.traffic, choice.round, self.rounds)
        whole.add_stage(exchange)
        state.traffic = whole.traffic()
        self.snapshots.save(state.snapshot(step_of(self.method, choice.round, stage)))
        facts = {"stage": stage.name, "answered": sorted(exchange.numbers)}
        log_event(INFO, "stage committed", round=choice.round, **facts)

    def _merge(self, replies: Iterable[Reply], state: RunState, choice: Choice) -> Payload:
        """Merge the replies of a round into the state, and return the merging rule's part of it."""
        if self.regions:
            return self._merge_sums(self._regional_sums(TRAINING, replies), state, choice)
        if self.method.summation is not None:
            total = RingTotal()
            for _, reply in replies:
                total.add(reply.arrays)
            sums = self.method.summation.decode(total.arrays, len(self.clients))
            return self._merge_sums(sums, state, choice)
        received = ReceivedExtras(self._extras_rule(TRAINING))
        state.merging = self._rules.merged(state.merging, received.passing(replies), choice)
        self._merge_extras(TRAINING, state, received, choice)
        return state.merging

    def _secure_sums(
        self,
        wire: Wire,
        spared: Spared,
        state: RunState,
        number: int,
        rounds: int,
        candidates: Sequence[int],
    ) -> tuple[Arrays, Exchange]:
        """The sums of a round's terms, which are all that the server learns."""
        from ramet.engine.server.secure_rounds import SecureRound  # needs an extra

        assert self.method.summation is not None
        secure_round = SecureRound(
            number=number,
            rounds=rounds,
            candidates=candidates,
            clients=self.clients,
            summation=self.method.summation,
            wire=wire,
            state=state,
            replies=lambda members, exchange, needed: self._replies(
                wire, members, state, exchange, needed
            ),
            context=lambda exchange: self._context(state, exchange),
            commit=lambda: self.snapshots.save(state.snapshot(step_of(self.method, number - 1))),
            retry_delays=self.retry_delays,
        )
        sums, exchange = secure_round.run(spared, self.quorum)
        exchange.drop_means(lambda means: range_fault(means, self._score_range))
        return sums, exchange

    @property
    def _score_range(self) -> Range:
        """Where clients' validation and test scores lie."""
        return score_range(self.method.task)

    def _context(self, state: RunState, exchange: Exchange) -> str:
        """A digest of what all members of a secure sum have in common."""
        client = self.clients[0]
        sent = self._sent(state, client, (), exchange.round)
        return context_digest(self._request(client, sent, (), state, exchange), self.config)

    def _regional_sums(self, exchange: str, replies: Iterable[Reply]) -> Arrays:
        """The sums over the clients of all regions."""
        total = RegionalSum(self.method, exchange)
        for _, reply in replies:
            total.add_parts(reply.arrays)
        return total.sums(len(self.clients))

    def _merge_sums(self, sums: Arrays, state: RunState, choice: Choice) -> Payload:
        if parameters := parameter_sums(sums):
            state.merging = self._rules.summed(state.merging, parameters, choice)
        self._step_extras(TRAINING, state, extra_sums(sums), choice)
        return state.merging

    def _extras_rule(self, exchange: str) -> Merging | None:
        declared = declared_extras(self.method).get(exchange)
        return declared.rule if declared else None

    def _merge_extras(
        self, exchange: str, state: RunState, received: ReceivedExtras, choice: Choice
    ) -> None:
        self._step_extras(exchange, state, received.total.arrays(), choice)
        if received.compared:
            own = state.extras[exchange]
            replies = received.compared
            state.extras[exchange] = self._rules.merged_extras(exchange, own, replies, choice)

    def _step_extras(self, exchange: str, state: RunState, summed: Arrays, choice: Choice) -> None:
        if summed and exchange in state.extras:
            own = state.extras[exchange]
            state.extras[exchange] = self._rules.stepped(exchange, own, summed, choice)

    def _paced(self, replies: Iterable[Reply], state: RunState, number: int) -> Iterable[Reply]:
        """The replies that are merged in this round; others are held for later rounds."""
        pace = self.method.pace
        if pace is None:
            return replies
        if not pace.simulated:
            arrived = [*islice(replies, pace.count)]
            state.arrived = [client for client, _ in arrived]
            return arrived
        new = dict(replies)
        due = {client: reply.due for client, reply in state.held.items()}
        for client in new:
            due[client] = state.clock + pace.duration(Randomness(self.seed, client, number))
        first = sorted(due, key=lambda client: (due[client], client))[: pace.count]
        merged = []
        for client in first:
            sent = self._rules.sent(state.merging, client)
            late = state.held.pop(client, None)
            if late is None:
                merged.append((client, new.pop(client)))
            else:
                reply = moved(late.update, sent)
                merged.append((client, with_stale(reply, number - late.asked)))
        for client, reply in new.items():
            sent = self._sent(state, client, (), number)
            state.held[client] = HeldReply(update_of(reply, sent), number, due[client])
        state.clock = max((due[client] for client in first), default=state.clock)
        return merged

    def _choice(self, number: int) -> Choice:
        return Choice(
            self.clients,
            Randomness(self.seed, SERVER, number),
            self.network,
            self.shape,
            self.device,
            switchable_arrays(self.method, self.start),
            buffers=self.buffers,
        )

    @cached_property
    def _rules(self) -> ServerRules:
        return ServerRules(self.method, self.start, self.extras)

    def _overview(self, state: Payload) -> dict[str, float]:
        if self.evaluate_server is None:
            return {}
        return dict(self.evaluate_server(self._rules.new_client(state)))

    def _replies(
        self,
        wire: Wire,
        spared: Spared,
        state: RunState,
        exchange: Exchange,
        quorum: int | None = None,
    ) -> Iterator[Reply]:
        """Yield valid replies as they arrive, and retry until the quorum is reached.

        If it is not reached, the error is raised here, so no rule merges too few replies.
        """
        needed = max(1, min(quorum or self.quorum, len(spared)))
        for attempt, delay in enumerate((0.0, *self.retry_delays)):
            exchange.retries = attempt
            missing = {k: names for k, names in spared.items() if k not in exchange.numbers}
            if attempt:
                facts = {"round": exchange.round, "attempt": attempt, "clients": [*missing]}
                log_event(WARNING, "asked again", **facts)
            time.sleep(delay)
            ask = self._regional_replies if self.regions else self.valid_replies
            yield from ask(wire, missing, state, exchange)
            if len(exchange.numbers) >= needed:
                return
        if state.held:  # replies of earlier rounds remain to be merged
            return
        facts = {"round": exchange.round, "valid": len(exchange.numbers), "asked": len(spared)}
        log_event(ERROR, "quorum missed", **facts, quorum=needed)
        raise exchange.below(needed, len(spared))

    def _regional_replies(
        self, wire: Wire, spared: Spared, state: RunState, exchange: Exchange
    ) -> Iterator[Reply]:
        """Ask each region once, and yield its sum; what it says goes into ``exchange``."""
        asked = {
            region: {client: spared[client] for client in clients if client in spared}
            for region, clients in self.regions.items()
        }
        requests = (
            (region, regional_request(state, own, exchange)) for region, own in asked.items() if own
        )
        for region, reply in wire.exchange(requests):
            own = asked[region]
            facts = (
                reply
                if isinstance(reply, str)
                else regional_facts(reply, own, self.method, exchange)
            )
            if isinstance(reply, str) or isinstance(facts, str):
                received = isinstance(reply, Refused | Payload)
                for client in own:
                    exchange.add_fault(client, f"{region}: {facts}", received)
                continue
            exchange.add_region(facts)
            counts = {"asked": len(own), "answered": len(facts.numbers), "bytes": reply.nbytes}
            log_event(INFO, "region answered", round=exchange.round, region=region, **counts)
            yield region, reply

    def valid_replies(
        self, wire: Wire, spared: Spared, state: RunState, exchange: Exchange
    ) -> Iterator[Reply]:
        """Ask each client once; faults, scores and counts go into ``exchange``."""

        def requests() -> Iterator[tuple[str, Payload]]:
            for client, names in spared.items():
                sent = self._sent(state, client, names, exchange.round)
                message = self._request(client, sent, names, state, exchange)
                exchange.add_request(client, message)
                state.in_flight[client] = InFlight(exchange.round, sent)
                yield client, message

        for client, reply in wire.exchange(requests()):
            asked = state.in_flight.pop(client)
            if isinstance(reply, str):
                exchange.add_fault(client, reply, received=isinstance(reply, Refused))
                continue
            arrived = self._arrived(reply, asked, spared.get(client, ()), exchange)
            if isinstance(arrived, str):
                exchange.add_fault(client, arrived, received=True)
                continue
            exchange.add_reply(client, reply, asked.round)
            if exchange.train and exchange.stage is None:
                exchange.scores[client] = self._rules.score(
                    asked.sent, arrived.arrays, reply.numbers
                )
            yield client, self._moved(client, arrived, asked, state, exchange.round)

    def _request(
        self,
        client: str,
        sent: Arrays,
        spared: Sequence[str],
        state: RunState,
        exchange: Exchange,
    ) -> Payload:
        """The message to a client, without what it starts with or does not need yet."""
        in_stage = exchange.stage is not None
        extras = self._rules.sent_extras(self._known_extras(state, exchange), client)
        message = request(
            exchange.round,
            exchange.train,
            {} if exchange.round == 1 or in_stage else sent,
            state.last.get(client, 0),
            () if in_stage else spared,
            extras,
            exchange.stage,
            exchange.candidates,
        )
        return replace(message, notes={**message.notes, **exchange.notes})

    def _known_extras(self, state: RunState, exchange: Exchange) -> dict[str, Payload]:
        """The states of extras that clients need: in round 1 those of stages that are over."""
        if not exchange.train:
            return {}
        if exchange.round > 1:
            in_stage = exchange.stage is not None
            return {k: v for k, v in state.extras.items() if not (in_stage and k == TRAINING)}
        names = [stage.name for stage in self.method.stages if stage.in_round(exchange.round)]
        over = names if exchange.stage is None else names[: names.index(exchange.stage.name)]
        return {key: own for key, own in state.extras.items() if key in over}

    def _sent(
        self, state: RunState, client: str, spared: Sequence[str], number: int
    ) -> dict[str, Array]:
        """The arrays that a client begins a round with. In round 1 none were sent."""
        sent = self._rules.sent(state.merging, client, spared)
        return {name: self.start[name] for name in sent} if number == 1 else sent

    def _moved(
        self, client: str, reply: Payload, asked: InFlight, state: RunState, number: int
    ) -> Payload:
        """A late reply, moved to the current merge; others as they are."""
        if self.method.pace is None:
            return reply
        if asked.round < number:
            sent = self._rules.sent(state.merging, client)
            reply = moved(update_of(reply, asked.sent), sent)
        return with_stale(reply, number - asked.round)

    def _arrived(
        self, reply: Payload, asked: InFlight, spared: Sequence[str], exchange: Exchange
    ) -> Payload | str:
        """The reply as it is merged, or what is wrong with it."""
        trained = exchange.train and exchange.stage is None
        if self.method.summation is not None:
            terms = self._rules.expected_terms(spared, exchange.train, exchange.key)
            due = expected_numbers(reply, due_numbers(asked.round, exchange.train))
            clear = exchange.train and not self.secure
            numbers = () if self.secure else due
            return summand_fault(reply, terms, clear, numbers, self._score_range) or reply
        begun = self._begun(asked) if trained else {}
        expected = self._expected(spared, exchange)
        form = expected
        for release in self.method.release:
            form = release.form(form, begun)
        due = due_numbers(asked.round, exchange.train) if exchange.stage is None else ()
        due = expected_numbers(reply, due)
        reason = fault(reply, form, exchange.train, due, self._score_range)
        if reason:
            return reason
        for release in reversed(self.method.release):
            reply = release.arrive(reply, begun)
        if self.method.release:
            reason = fault(reply, expected, exchange.train)
        reason = reason or self._rules.extras_flaw(reply, exchange.key)
        if reason or not trained:
            return reason or reply
        reason = self.method.flaw(reply.arrays)
        return reason or distance_fault(reply.arrays, asked.sent, self.norm_bound) or reply

    def _begun(self, asked: InFlight) -> dict[str, Array]:
        """The parameters with which a client has begun to train, as its releases know them."""
        down = {name: array for name, array in self.start.items() if name in self.method.down}
        arrays = asked.sent if asked.round > 1 else down
        return {name: array for name, array in arrays.items() if name not in self.buffers}

    def _expected(self, spared: Sequence[str], exchange: Exchange) -> Payload:
        """A payload with the names, shapes and types of a client's reply."""
        if not exchange.train:
            return Payload()
        extras = self._rules.expected_extras(exchange.key)
        return Payload({} if exchange.stage else self._rules.expected(spared), extras=extras)

    def _restored(self) -> tuple[RunState, int]:
        """The saved state of the run, and the number of its last step."""
        saved = self.snapshots.latest_valid()
        if saved is None:
            return RunState(self._rules.first_state(), self._rules.first_extras()), 0
        return RunState.restored(saved), saved.step


def with_stale(reply: Payload, stale: int) -> Payload:
    return replace(reply, numbers={**reply.numbers, "stale": stale})


def update_of(reply: Payload, sent: Arrays) -> Payload:
    """A reply with the changes of its arrays relative to what was sent."""
    arrays = {n: a - sent[n] if n in sent else a for n, a in reply.arrays.items()}
    return replace(reply, arrays=arrays)


def moved(update: Payload, sent: Arrays) -> Payload:
    """The reply that a client would have sent with this update, had it begun with ``sent``."""
    arrays = {n: sent[n] + a if n in sent else a for n, a in update.arrays.items()}
    return replace(update, arrays=arrays)
