"""What participants see of a run, from repeating it with the run's own settings and data.

Masks cancel out, so runs with secure sums are repeated without. Each site's term is then known
here, but of terms in such runs attackers get sums only.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

from ramet.engine.processes.local import LocalWire
from ramet.engine.server.wire import Answer, Wire
from ramet.engine.site.client import Client
from ramet.engine.site.states import LiveStates
from ramet.errors import RametWarning
from ramet.experiment import Experiment
from ramet.experiment.client_side import client_of
from ramet.experiment.objects import is_object
from ramet.experiment.server_side import rounds_of
from ramet.payload import Array, Arrays, Payload, under
from ramet.rules.fixed_point import PARAMETERS, RingTotal
from ramet.rules.method import AssembledMethod
from ramet.training.local import Training

_WEIGHT = "weight/"


class _SeenEnoughError(Exception):
    """Round 1 has been seen, so the rest of the run need not be repeated."""


@dataclass(frozen=True)
class Seen:
    """What one round shows of its sites.

    Args:
        training: of the sites.
        sent: the arrays that each began the round with.
        received: what the attacker takes for the arrays that each ended it with.
    """

    training: Training
    sent: Mapping[str, Arrays]
    received: Mapping[str, Arrays]


@dataclass
class Round:
    """The messages of a round of training, and the replies, with the terms of a sum in clear."""

    number: int
    requests: dict[str, Payload] = field(default_factory=dict)
    replies: dict[str, Payload] = field(default_factory=dict)

    def total(self) -> Arrays:
        """The sum over the sites that replied."""
        total = RingTotal()
        for reply in self.replies.values():
            total.add(reply.arrays)
        return total.arrays


@dataclass
class Sums:
    """The sums in which a server of secure sums learns replies: the latest over each set of sites.

    Of a site it learns the difference of two sums whose sets differ in this site alone, from rounds
    as close as possible; without such sets, the latest sum that it is in.
    """

    latest: dict[frozenset[str], tuple[int, Arrays]] = field(default_factory=dict)

    def enter(self, one: Round) -> None:
        self.latest[frozenset(one.replies)] = one.number, one.total()

    def of(self, client: str) -> tuple[Arrays, int]:
        """The smallest known sum of terms with that of the client, and over how many sites."""
        pairs = [
            (self.latest[sites], self.latest[sites - {client}])
            for sites in self.latest
            if client in sites and sites - {client} in self.latest
        ]
        if pairs:
            (_, more), (_, less) = min(pairs, key=lambda pair: abs(pair[0][0] - pair[1][0]))
            return {name: more[name] - less[name] for name in more.keys() & less.keys()}, 1
        _number, sites = max((self.latest[s][0], s) for s in self.latest if client in s)
        return self.latest[sites][1], len(sites)


@dataclass
class Recorder:
    """A wire that keeps what is sent and received.

    Args:
        wire: to the clients.
        first_only: end after round 1.
        prepared: arrays that the messages of round 1 bring, which bring none otherwise.
        every: how many rounds are between two whose merged models are kept.
    """

    wire: Wire
    first_only: bool = False
    prepared: Arrays = field(default_factory=dict)
    every: int = 1
    first: Round | None = None
    last: Round | None = None
    sums: Sums = field(default_factory=Sums)
    delivered: dict[int, dict[str, Arrays]] = field(default_factory=dict)
    """The merged arrays that each client received, by the round in which they were merged."""

    def exchange(self, requests: Iterable[tuple[str, Payload]]) -> Iterator[Answer]:
        asked: dict[str, Payload] = {}

        def kept() -> Iterator[tuple[str, Payload]]:
            for client, message in requests:
                if self._is_training(message):
                    message = self._with_prepared(message)
                    asked[client] = message
                self._deliver(client, message)
                yield client, message

        replies: dict[str, Payload] = {}
        for client, reply in self.wire.exchange(kept()):
            if client in asked and isinstance(reply, Payload) and reply.arrays:
                replies[client] = reply
            yield client, reply
        if replies:
            self._enter(asked, replies)

    def _enter(self, asked: Mapping[str, Payload], replies: Mapping[str, Payload]) -> None:
        number = _round(next(iter(asked.values())))
        if self.last is None or self.last.number != number:
            self.last = Round(number)
        self.last.requests |= asked
        self.last.replies |= replies
        self.first = self.first or self.last
        self.sums.enter(self.last)
        if self.first_only:
            raise _SeenEnoughError

    def _deliver(self, client: str, message: Payload) -> None:
        number = _round(message) - 1
        if message.arrays and number and number % self.every == 0:
            self.delivered.setdefault(number, {})[client] = message.arrays

    def _with_prepared(self, message: Payload) -> Payload:
        if _round(message) > 1:
            return message
        return replace(message, arrays={**message.arrays, **self.prepared})

    @staticmethod
    def _is_training(message: Payload) -> bool:
        return bool(message.numbers.get("train", 0)) and "stage" not in message.notes


def _round(message: Payload) -> int:
    return int(message.numbers.get("round", 0))


@dataclass(frozen=True)
class Repeated:
    """A run, or its first round, that was repeated with the settings of a run."""

    experiment: Experiment
    recorder: Recorder
    sha256: str
    states: Path
    """The folder with the folders of its clients."""

    @property
    def first(self) -> Seen:
        return self._seen(self.recorder.first)

    @property
    def last(self) -> Seen:
        return self._seen(self.recorder.last)

    def _seen(self, one: Round | None) -> Seen:
        method, received = self.experiment.method, dict[str, Arrays]()
        start, sent = self.experiment.sizes.shared_start(), dict[str, Arrays]()
        if one is None:
            return Seen(method.training, {}, {})
        sums = Sums()
        sums.enter(one)
        for client, reply in one.replies.items():
            sent[client] = one.requests[client].arrays or start
            if self.experiment.settings.secure:
                known = sums if one is self.recorder.first else self.recorder.sums
                received[client] = _mean_of(method, *known.of(client), sent[client])
            else:
                received[client] = self._read(reply, sent[client])
        return Seen(method.training, sent, received)

    def _read(self, reply: Payload, sent: Arrays) -> Arrays:
        method = self.experiment.method
        if method.summation is not None:
            return _mean_of(method, reply.arrays, 1, sent)
        buffers = self.experiment.sizes.buffers()
        begun = {name: sent[name] for name in sent if name not in buffers}
        for release in reversed(method.release):
            reply = release.arrive(reply, begun)
        return reply.arrays


def _mean_of(method: AssembledMethod, terms: Arrays, sites: int, like: Arrays) -> dict[str, Array]:
    """The weighted mean of the parameters in a sum of terms."""
    assert method.summation is not None
    scale = method.summation.scale
    found = method.summation.signed(under(PARAMETERS, terms))
    sums = {name: array.astype("float64") / scale for name, array in found.items()}
    weights = under(_WEIGHT, sums)
    means = {name: sums[name] / weights.get(name, sites) for name in sums if name in like}
    return {name: array.astype(like[name].dtype) for name, array in means.items()}


def repeated(
    experiment: Experiment,
    folder: Path,
    samples: Mapping[str, Any] | None = None,
    *,
    first_only: bool = False,
    prepared: Arrays | None = None,
    every: int = 1,
) -> Repeated:
    """Repeat a run, or round 1, in a new folder, with other ``samples`` if they are given."""
    sha256, states = "", folder / "clients"
    with _quiet():
        clients = cache(_clients(experiment, states, samples))
        recorder = Recorder(LocalWire(clients), first_only, prepared or {}, every)
        server = replace(rounds_of(experiment, folder / "server"), secure=False)
        if first_only:
            server = replace(server, rounds=1, patience=None)
        with suppress(_SeenEnoughError):
            sha256 = server.run(recorder, lambda _: None)
    return Repeated(experiment, recorder, sha256, states)


def _clients(
    experiment: Experiment, folder: Path, samples: Mapping[str, Any] | None
) -> Callable[[str], Client]:
    own_code = bool(experiment.settings.code) or is_object(experiment.settings.method)
    states = LiveStates(renewed=own_code)

    def client(name: str) -> Client:
        own = client_of(experiment, name, folder)
        unmasked = replace(own.protection, secure=None)
        own = replace(own, protection=unmasked, states=states)
        return own if samples is None else replace(own, samples=samples[name])

    return client


@contextmanager
def _quiet() -> Iterator[None]:
    """Repeated rounds warn of nothing that the run has not warned of."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RametWarning)
        yield
