"""The server's messages to clients."""

from __future__ import annotations

import json
from collections.abc import Sequence

from ramet.payload import Arrays, Payload
from ramet.rules.extras import Stage

PRIVATE_STATE = "private"
"""The note of a reply with a digest of the private part of a client's state."""
TRAINING, EVALUATION = "training", "evaluation"
"""What a message asks for, unless it is a stage."""


def request(
    round_number: int,
    train: bool,
    arrays: Arrays,
    last: int = 0,
    omitted: Sequence[str] = (),
    extras: Arrays | None = None,
    stage: Stage | None = None,
    candidates: Sequence[int] = (),
) -> Payload:
    """Build the server's message to a client: the arrays to load, and what to do then.

    ``last`` is the last round for which the server has this client's reply; 0 if there is none.
    ``omitted`` lists shared arrays that the client is not asked for. It is sent as a note, as is
    the name of the stage, if the client is not asked to train yet. ``candidates`` are the rounds
    that may be the best; the client keeps its models of these.
    """
    notes = {"spared": json.dumps(list(omitted))} if omitted else {}
    if candidates:
        notes["candidates"] = json.dumps(list(candidates))
    if stage is not None:
        notes["stage"] = stage.name
    numbers = {"round": round_number, "train": int(train), "last": last}
    return Payload(arrays, numbers, notes, extras or {})


def kind_of(message: Payload) -> str:
    """What a message asks for; one that asks not to train is an evaluation, whatever its notes."""
    if not message.numbers["train"]:
        return EVALUATION
    return f"stage {message.notes['stage']}" if "stage" in message.notes else TRAINING


def asks_for_scores(message: Payload) -> bool:
    """Whether a reply has scores: of the model that a message has.

    In round 1 it has one only if sites start with another run's.
    """
    kind, is_first = kind_of(message), message.numbers["round"] == 1
    return kind == EVALUATION or (kind == TRAINING and (not is_first or bool(message.arrays)))


def omitted_arrays(message: Payload) -> list[str]:
    """The shared arrays that a message does not ask for."""
    names: list[str] = json.loads(message.notes.get("spared", "[]"))
    return names


def candidates(message: Payload) -> list[int]:
    """The rounds that may be the best, as far as the server knows."""
    rounds: list[int] = json.loads(message.notes.get("candidates", "[]"))
    return rounds
