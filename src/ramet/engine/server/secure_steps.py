"""The steps of secure sums at the server: it relays keys and shares, and learns sums only.

Before the first round of a batch, sites exchange keys and shares of their seeds. In each round they
train and send masked terms. The server commits the sum of these with the list of survivors. If a
site has dropped out, it collects the survivors' signatures of the list. Then it asks them to unmask
the sum. A server that is killed goes on after what it has committed.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ramet.engine.secure_messages import (
    AGREE,
    BATCH,
    BATCH_ROUNDS,
    CONFIRMED,
    KEYS,
    MEMBERS,
    SHARES,
    SUMMED,
    SURVIVORS,
    UNMASK,
    Participants,
    step_request,
    to_bytes,
    to_text,
)
from ramet.engine.server.asking import Ask
from ramet.errors import RametError
from ramet.payload import Array, Arrays, Payload, under
from ramet.secure.adverts import Advert, Batch
from ramet.secure.masks import SEED_BYTES
from ramet.secure.protocol import unmasked
from ramet.secure.shares import SEALED_BYTES, threshold


@dataclass(frozen=True)
class PendingSum:
    """The masked sum of a round that is not unmasked yet."""

    round: int
    survivors: tuple[str, ...]
    total: Arrays
    context: str
    """A digest of what the sites were sent, and of their settings."""
    tally: Mapping[str, Any]
    """What was counted while the replies arrived."""


@dataclass(frozen=True)
class SecureState:
    """What the server keeps of secure sums between exchanges."""

    batch: Batch | None = None
    adverts: Mapping[str, str] = field(default_factory=dict)
    shares: Mapping[str, Mapping[str, Array]] = field(default_factory=dict)
    """The encrypted shares, by sender and receiver."""
    sites: int = 0
    """How many sites the run has, also those that did not send keys."""
    summed: str = ""
    """The note about who was in the last sum."""
    confirmed: Mapping[str, str] = field(default_factory=dict)
    """Signatures of the list of survivors of the last round."""
    pending: PendingSum | None = None

    @property
    def members(self) -> tuple[str, ...]:
        """The sites whose masks are in the sums: those that have shared their seeds."""
        return tuple(sorted(self.shares))

    @property
    def needed(self) -> int:
        """How many sites must be in a sum: more than half of all."""
        return threshold(self.sites)

    def notes(self) -> dict[str, str]:
        """The notes of messages to train."""
        assert self.batch is not None
        return {
            BATCH: json.dumps(_id(self.batch)),
            MEMBERS: json.dumps(self.members),
            SUMMED: self.summed,
            CONFIRMED: json.dumps(dict(self.confirmed)),
        }

    def to_payload(self) -> Payload:
        """The form on disk."""
        arrays: dict[str, Array] = {
            f"shares/{sender}/{receiver}": content
            for sender, by_receiver in self.shares.items()
            for receiver, content in by_receiver.items()
        }
        facts: dict[str, Any] = {"adverts": dict(self.adverts), "confirmed": dict(self.confirmed)}
        facts |= {"sites": self.sites, "summed": self.summed}
        facts["batch"] = None if self.batch is None else _id(self.batch)
        if self.pending is not None:
            arrays |= {f"total/{name}": array for name, array in self.pending.total.items()}
            facts["pending"] = {
                "round": self.pending.round,
                "survivors": self.pending.survivors,
                "context": self.pending.context,
                "tally": dict(self.pending.tally),
            }
        return Payload(arrays, notes={"facts": json.dumps(facts)})

    @staticmethod
    def restored(saved: Payload) -> SecureState:
        if not saved.notes:
            return SecureState()
        facts = json.loads(saved.notes["facts"])
        shares: dict[str, dict[str, Array]] = {}
        for key, content in under("shares/", saved.arrays).items():
            sender, _, receiver = key.partition("/")
            shares.setdefault(sender, {})[receiver] = content
        pending = None
        if "pending" in facts:
            own = facts["pending"]
            total = under("total/", saved.arrays)
            survivors = tuple(own["survivors"])
            pending = PendingSum(own["round"], survivors, total, own["context"], own["tally"])
        batch = facts["batch"] and Batch("", *facts["batch"])
        known = {name: facts[name] for name in ("sites", "summed", "confirmed")}
        return SecureState(batch, facts["adverts"], shares, **known, pending=pending)


def with_keys(
    state: SecureState, clients: tuple[str, ...], number: int, last: int, ask: Ask
) -> SecureState:
    """The state with keys for a round; sites that do not answer are left out of the whole batch."""
    if state.batch is not None and number in state.batch.rounds:
        return state
    end = min(number + BATCH_ROUNDS - 1, last)
    batch = Batch("", secrets.token_hex(16), number, end)
    train = number < last

    def advert_fault(client: str, reply: Payload) -> str | None:
        try:
            advert = Advert.parse(to_text(reply.extras[KEYS]), batch)
        except (KeyError, RametError):
            return "sent no keys"
        return None if advert.site == client else "sent the keys of another site"

    request = step_request(KEYS, _id(batch), number, train)
    needed = threshold(len(clients))
    replies = ask(KEYS, dict.fromkeys(clients, request), advert_fault, needed)
    adverts = {client: to_text(reply.extras[KEYS]) for client, reply in sorted(replies.items())}
    keys = {f"keys/{client}": to_bytes(text) for client, text in adverts.items()}
    size = len(batch.rounds) * SEALED_BYTES

    def shares_fault(client: str, reply: Payload) -> str | None:
        expected = {f"shares/{peer}": (size,) for peer in adverts if peer != client}
        given = {name: array.shape for name, array in reply.extras.items()}
        return None if given == expected else "sent no shares for the other sites"

    request = step_request(SHARES, _id(batch), number, train, keys)
    replies = ask(SHARES, dict.fromkeys(adverts, request), shares_fault, needed)
    shares = {client: under("shares/", reply.extras) for client, reply in replies.items()}
    return replace(state, batch=batch, adverts=adverts, shares=shares, sites=len(clients))


def sum_of(
    state: SecureState, pending: PendingSum, train: bool, ask: Ask
) -> tuple[Arrays, SecureState]:
    """Ask the survivors for shares, and return the sum without masks."""
    assert state.batch is not None
    batch, number, members = state.batch, pending.round, state.members
    signatures = _signatures(state, pending, train, ask)
    offset = (number - batch.first) * SEALED_BYTES

    def request(client: str) -> Payload:
        extras = {
            f"shares/{member}": state.shares[member][client][offset : offset + SEALED_BYTES].copy()
            for member in members
            if member != client
        }
        notes = {SURVIVORS: json.dumps(pending.survivors), CONFIRMED: json.dumps(signatures)}
        return step_request(UNMASK, _id(batch), number, train, extras, notes)

    def unmasking_fault(client: str, reply: Payload) -> str | None:  # noqa: ARG001
        shares = reply.extras.get(SHARES, np.zeros(0))
        valid = shares.shape == (len(members), SEED_BYTES) and CONFIRMED in reply.notes
        return None if valid else "sent no shares to unmask the sum"

    requests = {client: request(client) for client in pending.survivors}
    replies = ask(UNMASK, requests, unmasking_fault, state.needed)
    shares = {
        member: {client: reply.extras[SHARES][row].tobytes() for client, reply in replies.items()}
        for row, member in enumerate(members)
    }
    adverts = {site: Advert.parse(text, batch) for site, text in state.adverts.items()}
    survivors, context = pending.survivors, pending.context
    sums = unmasked(pending.total, batch, number, survivors, adverts, members, shares, context)
    confirmed = {client: reply.notes[CONFIRMED] for client, reply in replies.items()}
    confirmed = {**signatures, **confirmed}
    summed = Participants(batch.id, [*members], [*survivors]).note()
    return sums, replace(state, summed=summed, confirmed=confirmed, pending=None)


def _signatures(state: SecureState, pending: PendingSum, train: bool, ask: Ask) -> dict[str, str]:
    """The survivors' signatures of their list, without which they do not reveal a missing key.

    If all members are in the sum, no key is revealed, and no signature is needed.
    """
    assert state.batch is not None
    if pending.survivors == state.members:
        return {}

    def signing_fault(client: str, reply: Payload) -> str | None:  # noqa: ARG001
        return None if CONFIRMED in reply.notes else "did not sign the list of survivors"

    notes = {SURVIVORS: json.dumps(pending.survivors)}
    request = step_request(AGREE, _id(state.batch), pending.round, train, notes=notes)
    requests = dict.fromkeys(pending.survivors, request)
    replies = ask(AGREE, requests, signing_fault, state.needed)
    return {client: reply.notes[CONFIRMED] for client, reply in replies.items()}


def _id(batch: Batch) -> tuple[str, int, int]:
    return batch.id, batch.first, batch.last
