"""Secure sums of small arrays: real sites on disk, and a server that may lose or forge messages."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from federations import Federation, climbing
from ramet.engine.messages import request
from ramet.engine.secure_messages import (
    AGREE,
    CONFIRMED,
    KEYS,
    SHARES,
    STEP,
    UNMASK,
    context_digest,
)
from ramet.engine.server.secure_steps import PendingSum, SecureState, sum_of, with_keys
from ramet.engine.site.gates import passed
from ramet.engine.site.outer_gates import secure_gates
from ramet.engine.site.secure_site import SecureSite, simulated_site
from ramet.errors import RametError
from ramet.payload import Array, Payload
from ramet.rules.fixed_point import RingTotal

TRAIN = "train"
STEPS = (KEYS, SHARES, TRAIN, UNMASK)


def once(site: SecureSite, message: Payload, answer: Callable[[], Payload]) -> Payload:
    """A site's answer behind the gates of secure sums."""
    asked = Federation(climbing(), site.folder).client("a").request(message)
    return passed(secure_gates(site), asked, lambda _: answer())


def needing(site: SecureSite, smallest: int | None) -> SecureSite:
    """The site with another smallest number of members in a sum."""
    return replace(site, members=replace(site.members, smallest=smallest))


@dataclass
class Sums:
    """A run of secure sums over ``count`` sites, of which some are away in some steps."""

    count: int
    folder: Path
    away: Mapping[str, Collection[str]] = field(default_factory=dict)
    last: int = 2
    state: SecureState = field(default_factory=SecureState)
    messages: list[tuple[str, str, Payload]] = field(default_factory=list)
    replies: list[tuple[str, str, Payload]] = field(default_factory=list)

    @cached_property
    def names(self) -> tuple[str, ...]:
        return tuple(f"site{number:02d}" for number in range(self.count))

    @cached_property
    def sites(self) -> dict[str, SecureSite]:
        return {
            name: simulated_site(name, "run", self.folder / name, 0, self.names)
            for name in self.names
        }

    def terms(self, site: str, number: int) -> dict[str, Array]:
        draws = np.random.default_rng([self.names.index(site), number])
        largest = 2**63
        return {
            "matrix": draws.integers(0, largest, (3, 2), np.uint64, endpoint=True),
            "number": draws.integers(0, largest, (), np.uint64, endpoint=True).reshape(()),
        }

    def ask(
        self,
        step: str,
        requests: Mapping[str, Payload],
        fault: Callable[[str, Payload], str | None],
        needed: int,
    ) -> Mapping[str, Payload]:
        valid = {}
        for client, message in requests.items():
            if client in self.away.get(step, ()):
                continue
            self.messages.append((step, client, message))
            reply = self.sites[client].answer(message)
            self.replies.append((step, client, reply))
            assert fault(client, reply) is None
            valid[client] = reply
        if len(valid) < needed:
            raise RametError(f"{len(valid)} instead of {needed} in {step}")
        return valid

    def agree(self, number: int = 1) -> None:
        self.state = with_keys(self.state, self.names, number, self.last, self.ask)

    def train_message(self, number: int, **changes: str) -> Payload:
        message = request(number, True, {"slope": np.full(1, number, np.float32)}, number - 1)
        return replace(message, notes={**self.state.notes(), **changes})

    def train(self, client: str, number: int, message: Payload | None = None) -> Payload:
        message = message or self.train_message(number)
        self.messages.append((TRAIN, client, message))
        reply = once(self.sites[client], message, lambda: Payload(self.terms(client, number)))
        self.replies.append((TRAIN, client, reply))
        return reply

    def collect(self, number: int) -> PendingSum:
        total = RingTotal()
        present = [name for name in self.state.members if name not in self.away.get(TRAIN, ())]
        for client in present:
            total.add(self.train(client, number).arrays)
        if len(present) < self.state.needed:
            raise RametError(f"{len(present)} instead of {self.state.needed} in train")
        model = context_digest(self.train_message(number), "")
        return PendingSum(number, tuple(present), total.arrays, model, {})

    def run(self, number: int = 1) -> tuple[dict[str, Array], tuple[str, ...]]:
        """The unmasked sum of a round, and the sites that are in it."""
        self.agree(number)
        pending = self.collect(number)
        sums, self.state = sum_of(self.state, pending, True, self.ask)
        return dict(sums), pending.survivors

    def plain(self, survivors: Collection[str], number: int = 1) -> dict[str, Array]:
        total = RingTotal()
        for site in survivors:
            total.add(self.terms(site, number))
        return total.arrays


def unmask_message(sums: Sums, pending: PendingSum, client: str, **changes: str) -> Payload:
    """The server's request to a site to unmask a sum, with changed notes, and without signatures.

    Signatures are needed for lists that lack a member; give them as ``confirmed``.
    """
    caught: dict[str, Payload] = {}

    def catch(
        step: str,
        requests: Mapping[str, Payload],
        fault: Callable[[str, Payload], str | None],
        needed: int,
    ) -> Mapping[str, Payload]:
        if step == AGREE:
            return dict.fromkeys(requests, Payload(notes={CONFIRMED: ""}))
        caught.update(requests)
        raise RametError("caught")

    try:
        sum_of(sums.state, pending, True, catch)
    except RametError:
        message = caught[client]
    return replace(message, notes={**message.notes, **changes})


def sign_message(sums: Sums, pending: PendingSum) -> Payload:
    """The server's request to sign a list of survivors."""
    message = unmask_message(sums, pending, pending.survivors[0])
    return replace(message, notes={**message.notes, STEP: AGREE}, extras={})


def listed(*names: str) -> str:
    return json.dumps(sorted(names))
