"""What a site has answered in a run: each question once, on its disk before the reply leaves.

A coordinator that may ask as often as it likes, with models of its choice, reads a site's data out
of the answers. So training, each stage and the evaluation of a round are answered once: asked again
by the same message, a site sends the same bytes; asked by another, it refuses. All messages of a
round carry the same model, and rounds go forward; one may be missing, because a site may be away or
not be asked. A site that has evaluated a model sends no scores of another before it has trained.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

from filelock import FileLock
from safetensors.numpy import load, save

from ramet.disk import write_atomically
from ramet.engine.messages import EVALUATION, TRAINING, kind_of
from ramet.engine.secure_messages import request_digest
from ramet.engine.store.checkpoint import KEPT
from ramet.errors import RametError
from ramet.payload import Payload, digest, under
from ramet.policy import Numbers

ANSWERS = "answers"
"""The folder with a site's answers, next to its state in a run."""
Kept: TypeAlias = tuple[Payload, Mapping[str, Any]]
"""A reply, and what the site keeps with it."""
_ARRAYS, _EXTRAS = "arrays/", "extras/"
_SCORED = TRAINING, EVALUATION
"""Kinds of replies whose scores are in the clear, so that they can be left out."""
_WITHOUT_SCORES = Numbers(scores=False)


class AnsweredError(RametError):
    """A site does not answer a message, because of what it has answered before."""


@dataclass(frozen=True)
class RunAnswers:
    """The answers of one site in one run; it keeps the replies of the last rounds."""

    folder: Path

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Answer one message at a time, also in several processes."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self.folder / ".lock"):
            yield

    def once(
        self, message: Payload, answer: Callable[[], Kept], kind: str | None = None
    ) -> Payload:
        """The reply to a message; the same bytes if it was answered before.

        ``kind`` is what a round has one answer of; by default what the message asks for.
        """
        kind = kind or kind_of(message)
        with self.locked():
            known = self.entry(int(message.numbers["round"]), kind)
            if known is not None:
                return self._again(message, kind, known)
            self._check_new(message)
            has_scored = self._has_scored(message)
            if has_scored and kind not in _SCORED:
                raise AnsweredError(
                    f"this site has not trained since it evaluated the model of round "
                    f"{self._ledger()['evaluated']}, so it evaluates no other."
                )
            reply, facts = answer()
            reply = _WITHOUT_SCORES.permitted(reply) if has_scored else reply
            self._keep(message, kind, reply, facts)
            return reply

    def entry(self, number: int, kind: str) -> dict[str, Any] | None:
        """What the site keeps of an answer; None if it has not given it, or long ago."""
        entry: dict[str, Any] | None = self._round(self._ledger(), number)["kinds"].get(kind)
        return entry

    @property
    def newest(self) -> int:
        """The last round that the site has answered; 0 if it has answered none."""
        return max(map(int, self._ledger()["rounds"]), default=0)

    def amend(self, number: int, kind: str, facts: Mapping[str, Any]) -> None:
        """Add to what the site keeps of an answer."""
        ledger = self._ledger()
        ledger["rounds"][str(number)]["kinds"][kind] |= facts
        self._write(ledger)

    def _again(self, message: Payload, kind: str, known: Mapping[str, Any]) -> Payload:
        number = int(message.numbers["round"])
        if known["request"] != request_digest(message):
            raise AnsweredError(
                f"this site has already answered round {number}, to another message. A second "
                "answer could reveal more than the first."
            )
        arrays = load(self._file(number, kind).read_bytes())
        reply = under(_ARRAYS, arrays), known["numbers"], known["notes"], under(_EXTRAS, arrays)
        return Payload(*reply)

    def _check_new(self, message: Payload) -> None:
        number, ledger, newest = int(message.numbers["round"]), self._ledger(), self.newest
        if number < newest:
            raise AnsweredError(
                f"this site does not go back to round {number}: it has already answered round "
                f"{newest}."
            )
        known = self._round(ledger, number)
        for name, array in message.arrays.items():
            if known["model"].get(name) not in (None, digest({name: array})):
                raise AnsweredError(
                    f"this site was sent another '{name}' in round {number} before. All messages "
                    "of a round have the same model."
                )
        has_model = number > 1 and any(kind in known["kinds"] for kind in _SCORED)
        if has_model and kind_of(message) in _SCORED and known["model"].keys() != {*message.arrays}:
            raise AnsweredError(f"this site was sent other arrays in round {number} before.")

    def _has_scored(self, message: Payload) -> bool:
        """Whether the message asks for scores although the site has not trained since the last."""
        ledger = self._ledger()
        return not message.numbers["train"] and bool(ledger["trained"] < ledger["evaluated"])

    def _keep(self, message: Payload, kind: str, reply: Payload, facts: Mapping[str, Any]) -> None:
        number, ledger = int(message.numbers["round"]), self._ledger()
        arrays = {_ARRAYS + name: array for name, array in reply.arrays.items()}
        arrays |= {_EXTRAS + name: array for name, array in reply.extras.items()}
        write_atomically(self._file(number, kind), save(arrays))
        known = self._round(ledger, number)
        known["model"] |= {name: digest({name: array}) for name, array in message.arrays.items()}
        known["kinds"][kind] = {
            "request": request_digest(message),
            "numbers": dict(reply.numbers),
            "notes": dict(reply.notes),
            **facts,
        }
        ledger["rounds"] = {
            old: own for old, own in ledger["rounds"].items() if int(old) > number - KEPT
        } | {str(number): known}
        asked = kind_of(message)
        if asked in _SCORED:
            ledger["trained" if asked == TRAINING else "evaluated"] = number
        self._write(ledger)
        for path in self.folder.glob("*.safetensors"):
            if int(path.name.partition("-")[0]) <= number - KEPT:
                path.unlink()

    def _file(self, number: int, kind: str) -> Path:
        return self.folder / f"{number:06d}-{kind}.safetensors"

    @staticmethod
    def _round(ledger: Mapping[str, Any], number: int) -> dict[str, Any]:
        known: dict[str, Any] = ledger["rounds"].get(str(number), {"model": {}, "kinds": {}})
        return known

    def _ledger(self) -> dict[str, Any]:
        path = self.folder / "ledger.json"
        empty: dict[str, Any] = {"trained": 0, "evaluated": 0, "rounds": {}}
        return json.loads(path.read_text()) if path.exists() else empty

    def _write(self, ledger: Mapping[str, Any]) -> None:
        write_atomically(self.folder / "ledger.json", json.dumps(ledger).encode())
