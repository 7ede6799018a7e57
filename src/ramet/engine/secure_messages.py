"""The messages of secure sums, besides those to train: their notes, and arrays of bytes."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

import numpy as np

from ramet.errors import RametError
from ramet.payload import Array, Arrays, Payload, digest

STEP, BATCH, MEMBERS, SURVIVORS, CONFIRMED = "secure", "batch", "members", "survivors", "confirmed"
"""Notes: the step of the protocol, and what it is about."""
SUMMED = "summed"
"""The note of a message to train about the sum before: its batch, members and survivors."""
BATCH_ID = r"[0-9a-f]{32}"
BATCH_ROUNDS = 20
"""For how many rounds sites exchange keys at once; a site has keys for no more in one batch."""
ANSWER, TAG = "answer", "tag"
"""Notes of a reply in a verified run: what the site signs, and its tag of what is summed."""
QUESTIONS = "questions"
"""The note of a reply before it is masked: what was asked about which network. It stays here."""
SUM = "sum"
"""The kind of all answers under masks: a round has one, to train or to evaluate."""
KEYS, SHARES, AGREE, UNMASK = "keys", "shares", "agree", "unmask"
"""The steps: two before the first round of a batch; after each training the sites agree on the list
of survivors if one of them has dropped out, and unmask the sum."""


class SecureError(RametError):
    """A message does not fit the protocol, so a site does not answer it."""


@dataclass(frozen=True)
class Participants:
    """Who was in a sum: the keys' batch, its members, and the survivors of the round."""

    batch: str
    members: list[str]
    survivors: list[str]

    def note(self) -> str:
        return json.dumps(asdict(self))

    @staticmethod
    def in_message(message: Payload) -> Participants:
        try:
            given = Participants(**json.loads(message.notes[SUMMED]))
        except (KeyError, ValueError, TypeError) as error:
            raise SecureError("the message does not name the sum of the round before.") from error
        is_id = isinstance(given.batch, str) and re.fullmatch(BATCH_ID, given.batch)
        if not is_id or not _are_names(given.members) or not _are_names(given.survivors):
            raise SecureError("the message does not name the sum of the round before.")
        return given


def step_request(
    step: str,
    batch: Sequence[str | int],
    number: int,
    train: bool,
    extras: Arrays | None = None,
    notes: Mapping[str, str] | None = None,
) -> Payload:
    """A message that asks for a step of the protocol."""
    numbers = {"round": number, "train": int(train), "last": 0}
    texts = {STEP: step, BATCH: json.dumps([*batch]), **(notes or {})}
    return Payload({}, numbers, texts, extras or {})


def context_digest(message: Payload, config: str) -> str:
    """A digest of all that must be the same for all members of a sum.

    This is what a message to train sends, whether it asks to train, the members, and ``config``,
    a digest of the run's settings.
    """
    content = [
        digest(message.arrays),
        digest(message.extras),
        int(message.numbers["train"]),
        message.notes.get(MEMBERS, ""),
        config,
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def request_digest(message: Payload) -> str:
    """SHA-256 of what a message asks for; it is the same if the message is sent again."""
    asked = (BATCH, MEMBERS, "spared", "stage")
    notes = {key: note for key, note in message.notes.items() if key in asked}
    content = [
        digest(message.arrays),
        digest(message.extras),
        sorted((key, float(value)) for key, value in message.numbers.items()),
        sorted(notes.items()),
    ]
    return hashlib.sha256(json.dumps(content).encode()).hexdigest()


def to_bytes(content: str | bytes) -> Array:
    """Bytes as an array, so that they are counted and audited."""
    return np.frombuffer(content.encode() if isinstance(content, str) else content, np.uint8)


def to_text(array: Array) -> str:
    try:
        return array.astype(np.uint8).tobytes().decode()
    except UnicodeDecodeError as error:
        raise SecureError("the keys of a site are not a text.") from error


def names_in(message: Payload, note: str) -> list[str]:
    """A list of sites in a note, which must be sorted and without repetitions."""
    try:
        names = json.loads(message.notes[note])
    except (KeyError, ValueError) as error:
        raise SecureError(f"the message has no list of {note}.") from error
    if not _are_names(names):
        raise SecureError(f"the message has no list of {note}.")
    return [str(name) for name in names]


def _are_names(names: object) -> bool:
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        return False
    return names == sorted({*names})


def signatures_in(message: Payload) -> dict[str, bytes]:
    """Signatures of a list of survivors, by site."""
    try:
        given = dict(json.loads(message.notes.get(CONFIRMED, "{}")))
        return {str(site): bytes.fromhex(signature) for site, signature in given.items()}
    except (ValueError, TypeError) as error:
        raise SecureError("the message has no signatures of survivors.") from error
