"""A round of secure sums at the server: keys if needed, masked replies, and their unmasking."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from logging import INFO, WARNING
from typing import TYPE_CHECKING

from ramet.engine.secure_messages import KEYS, SHARES
from ramet.engine.server.exchange import Exchange
from ramet.engine.server.secure_server import PendingSum, SecureState, sum_of, with_keys
from ramet.engine.server.state import RunState
from ramet.errors import RametError
from ramet.events import log_event
from ramet.payload import Arrays, Payload
from ramet.rules.activation import Spared
from ramet.rules.fixed_point import FixedPoint, RingTotal, means_of
from ramet.rules.merging import Reply

if TYPE_CHECKING:
    from ramet.engine.server.wire import Wire


@dataclass(frozen=True)
class SecureRound:
    """The exchanges of one round.

    Args:
        number: the round; the one after the last is the closing evaluation.
        rounds: the number of rounds of the run.
        candidates: earlier rounds that may be the best.
        clients: all clients of the run.
        summation: how terms are encoded.
        wire: carries messages.
        state: what the server knows.
        replies: asks clients to train, and yields valid replies, at least the given number.
        context: returns a digest of what clients are sent, and of their settings.
        commit: saves the state, so that a server that is killed goes on from here.
        retry_delays: seconds before each time that missing clients are asked again.
    """

    number: int
    rounds: int
    candidates: Sequence[int]
    clients: Sequence[str]
    summation: FixedPoint
    wire: Wire
    state: RunState
    replies: Callable[[Spared, Exchange, int], Iterator[Reply]]
    context: Callable[[Exchange], str]
    commit: Callable[[], None]
    retry_delays: Sequence[float] = ()

    def run(self, spared: Spared, quorum: int) -> tuple[Arrays, Exchange]:
        """Return the sums over the clients that replied, and what was sent and received."""
        started = time.monotonic()
        self._agree_on_keys()
        secure = self._secure
        if secure.pending is None:
            secure = self._collect(spared, max(quorum, secure.needed), started)
        assert secure.pending is not None
        exchange = Exchange.restored(self.number, self.rounds, secure.pending.exchange)
        counted = Exchange(self.number, self.rounds)
        total, secure = sum_of(secure, secure.pending, exchange.train, self._asker(counted))
        exchange.add_later(counted)
        sums = self.summation.decode(total, len(self.clients))
        exchange.means = means_of(sums)
        self.state.secure = secure.to_payload()
        return sums, exchange

    @property
    def _secure(self) -> SecureState:
        return SecureState.restored(self.state.secure)

    def _agree_on_keys(self) -> None:
        secure, counted = self._secure, Exchange(self.number, self.rounds)
        last = self.rounds + 1
        agreed = with_keys(secure, tuple(self.clients), self.number, last, self._asker(counted))
        if agreed is secure:
            return
        whole = Exchange.after(self.state.traffic, self.number, self.rounds)
        whole.add_stage(counted)
        self.state.traffic = whole.traffic()
        self.state.secure = agreed.to_payload()
        self.commit()
        log_event(INFO, "keys exchanged", round=self.number, members=[*agreed.members])

    def _collect(self, spared: Spared, needed: int, started: float) -> SecureState:
        """Add up the masked replies, and commit the sum with the list of survivors."""
        secure = self._secure
        exchange = Exchange.after(
            self.state.traffic,
            self.number,
            self.rounds,
            started=started,
            candidates=self.candidates,
            notes=secure.notes(),
        )
        members = {client: names for client, names in spared.items() if client in secure.members}
        total = RingTotal()
        for _, reply in self.replies(members, exchange, needed):
            total.add(reply.arrays)
        for client in spared.keys() - members.keys():
            exchange.failed.setdefault(client, "has no keys for this round")
        survivors = tuple(sorted(exchange.numbers))
        if len(survivors) < needed:
            raise exchange.below(needed, len(members))
        context, facts = self.context(exchange), exchange.facts()
        pending = PendingSum(self.number, survivors, total.arrays, context, facts)
        secure = replace(secure, pending=pending)
        self.state.secure = secure.to_payload()
        self.commit()
        return secure

    def _asker(
        self, exchange: Exchange
    ) -> Callable[
        [str, Mapping[str, Payload], Callable[[str, Payload], str | None], int],
        Mapping[str, Payload],
    ]:
        """A function that sends the messages of a step, and counts them in ``exchange``.

        For keys and shares, all sites are asked again until all have answered, because by default
        sites take part only if all of their list do.
        """

        def ask(
            step: str,
            requests: Mapping[str, Payload],
            fault: Callable[[str, Payload], str | None],
            needed: int,
        ) -> Mapping[str, Payload]:
            valid: dict[str, Payload] = {}
            for attempt, delay in enumerate((0.0, *self.retry_delays)):
                missing = {c: message for c, message in requests.items() if c not in valid}
                if attempt:
                    facts = {"round": self.number, "attempt": attempt, "clients": [*missing]}
                    log_event(WARNING, "asked again", step=step, **facts)
                time.sleep(delay)
                for client, reply in self._exchanged(missing.items(), exchange):
                    reason = reply if isinstance(reply, str) else fault(client, reply)
                    if isinstance(reply, str) or reason:
                        exchange.add_fault(client, str(reason), not isinstance(reply, str))
                    else:
                        valid[client] = reply
                        _count(exchange, client, reply)
                if len(valid) >= (len(requests) if step in (KEYS, SHARES) else needed):
                    return valid
            if len(valid) >= needed:
                return valid
            reasons = "; ".join(f"{c}: {exchange.failed[c]}" for c in requests if c not in valid)
            raise RametError(
                f"{len(valid)} of {len(requests)} sites answered the step '{step}' of the secure "
                f"sum of round {self.number}, but {needed} are needed ({reasons}). Nothing was "
                "unmasked, and the round is not committed. Continue with `ramet resume`."
            )

        return ask

    def _exchanged(
        self, requests: Iterable[tuple[str, Payload]], exchange: Exchange
    ) -> Iterator[tuple[str, Payload | str]]:
        def counted() -> Iterator[tuple[str, Payload]]:
            for client, message in requests:
                exchange.add_request(client, message)
                yield client, message

        return self.wire.exchange(counted())


def _count(exchange: Exchange, client: str, reply: Payload) -> None:
    """Add a reply to those that a client has sent in earlier steps."""
    before = exchange.numbers.get(client, {})
    exchange.add_reply(client, reply, exchange.round)
    own = exchange.numbers[client]
    names = ("up", "tensors", "scalars")
    exchange.numbers[client] = {**own, **{n: own[n] + before.get(n, 0) for n in names}}
