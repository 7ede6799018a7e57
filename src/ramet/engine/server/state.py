"""The server's state between exchanges, and its form on disk."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from ramet.engine.store.checkpoint import Snapshot
from ramet.payload import Array, Arrays, Payload, digest, under

_ACTIVITY, _EXTRAS, _HELD, _SECURE = "activity/", "extras/", "held/", "secure/"
RESERVED = (_ACTIVITY, _EXTRAS, _HELD, _SECURE)
"""Prefixes of the names of arrays that are not the merging rule's."""
_PARAMETERS, _OWN_EXTRAS = "parameters/", "extras/"


@dataclass(frozen=True)
class HeldReply:
    """A reply that has not been merged yet, with updates instead of arrays.

    ``asked`` is the round of the message that it answers, ``due`` the time at which it arrives.
    """

    update: Payload
    asked: int
    due: float


@dataclass(frozen=True)
class InFlight:
    """A client that has not answered yet: the round of the message, and what it started with."""

    round: int
    sent: Arrays


@dataclass
class RunState:
    """What the server knows after an exchange: all that it needs to continue the run."""

    merging: Payload
    """The state of the merging rule."""
    extras: dict[str, Payload] = field(default_factory=dict)
    """The states of the rules for extras, by the exchange in which clients send them."""
    activity: Payload = field(default_factory=Payload)
    """The state of the activation."""
    held: dict[str, HeldReply] = field(default_factory=dict)
    """Replies that arrive in later rounds, by client."""
    in_flight: dict[str, InFlight] = field(default_factory=dict)
    """Clients that have not answered yet. It is not saved: after a restart they are asked again."""
    arrived: list[str] = field(default_factory=list)
    """The clients of the last round in the order of arrival, if the first replies end a round."""
    clock: float = 0.0
    """The simulated time, if the method has a pace."""
    pending: dict[str, Any] = field(default_factory=dict)
    """The first half of the last round's record; it lacks the evaluation."""
    last: dict[str, int] = field(default_factory=dict)
    """The last round in which each client replied."""
    traffic: dict[str, Any] = field(default_factory=dict)
    """Messages that no record has counted yet: those of stages of an unfinished round."""
    secure: Payload = field(default_factory=Payload)
    """Keys, shares and the masked sum of secure sums."""

    def sha256(self, private: Mapping[str, str]) -> str:
        """SHA-256 of everything that was learned.

        ``private`` are the digests of clients' private state, in a simulation. Deployed sites send
        none, so that the SHA-256 is of what the server has.
        """
        extras = [[f"extras of {key}", digest(own.arrays)] for key, own in self.extras.items()]
        shared = ["shared", digest(self.merging.arrays)]
        everything = [shared, *extras, *sorted(private.items())]
        return hashlib.sha256(json.dumps(everything).encode()).hexdigest()

    def snapshot(self, step: int) -> Snapshot:
        arrays = {**self.merging.arrays, **_prefixed(_ACTIVITY, self.activity.arrays)}
        facts = {
            **_facts(self.merging),
            "activity": _facts(self.activity),
            "pending": self.pending,
            "last": self.last,
        }
        for key, state in self.extras.items():
            arrays |= _prefixed(f"{_EXTRAS}{key}/", state.arrays)
        for client, reply in self.held.items():
            arrays |= _prefixed(f"{_HELD}{client}/{_PARAMETERS}", reply.update.arrays)
            arrays |= _prefixed(f"{_HELD}{client}/{_OWN_EXTRAS}", reply.update.extras)
        if self.extras:
            facts["extras"] = {key: _facts(state) for key, state in self.extras.items()}
        if self.held or self.clock:
            facts["clock"] = self.clock
            facts["held"] = {
                client: {**_facts(reply.update), "asked": reply.asked, "due": reply.due}
                for client, reply in self.held.items()
            }
        if self.secure.notes:
            arrays |= _prefixed(_SECURE, self.secure.arrays)
            facts["secure"] = _facts(self.secure)
        if self.traffic:
            facts["traffic"] = self.traffic
        if self.arrived:
            facts["arrived"] = self.arrived
        return Snapshot(step, arrays, facts)

    @staticmethod
    def restored(saved: Snapshot) -> RunState:
        facts = saved.facts
        merged = {n: array for n, array in saved.arrays.items() if not n.startswith(RESERVED)}
        return RunState(
            merging=_payload(merged, facts),
            extras={
                key: _payload(under(f"{_EXTRAS}{key}/", saved.arrays), own)
                for key, own in facts.get("extras", {}).items()
            },
            activity=_payload(under(_ACTIVITY, saved.arrays), facts.get("activity", {})),
            held={
                client: _held(under(f"{_HELD}{client}/", saved.arrays), own)
                for client, own in facts.get("held", {}).items()
            },
            clock=facts.get("clock", 0.0),
            pending=dict(facts["pending"]),
            last=dict(facts["last"]),
            traffic=dict(facts.get("traffic", {})),
            secure=_payload(under(_SECURE, saved.arrays), facts.get("secure", {})),
        )


def _held(arrays: Arrays, facts: Mapping[str, Any]) -> HeldReply:
    update = _payload(under(_PARAMETERS, arrays), facts)
    extras = under(_OWN_EXTRAS, arrays)
    return HeldReply(replace(update, extras=extras), facts["asked"], facts["due"])


def _facts(state: Payload) -> dict[str, Any]:
    return {"numbers": dict(state.numbers), "notes": dict(state.notes)}


def _payload(arrays: Arrays, facts: Mapping[str, Any]) -> Payload:
    return Payload(arrays, facts.get("numbers", {}), facts.get("notes", {}))


def _prefixed(prefix: str, arrays: Arrays) -> dict[str, Array]:
    return {prefix + name: array for name, array in arrays.items()}
