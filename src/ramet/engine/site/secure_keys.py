"""The keys of a site in secure sums, on its disk: one file for each batch of rounds."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from ramet.disk import write_atomically
from ramet.engine.secure_messages import (
    BATCH,
    BATCH_ID,
    BATCH_ROUNDS,
    Participants,
    SecureError,
    signatures_in,
)
from ramet.payload import Payload
from ramet.secure.adverts import Advert, Batch, is_confirmed

_KEPT_BATCHES = 4


@dataclass(frozen=True)
class SecureKeys:
    """What a site knows of each batch: its own secrets, and what the members have sent."""

    site: str
    run: str
    folder: Path

    def batch(self, message: Payload) -> Batch:
        """The batch that a message is about."""
        try:
            identifier, first, last = json.loads(message.notes[BATCH])
            batch = Batch(self.run, str(identifier), int(first), int(last))
        except (KeyError, ValueError, TypeError) as error:
            raise SecureError(f"{self.site} answers in secure sums only.") from error
        is_id = re.fullmatch(BATCH_ID, batch.id)
        if not is_id or not 1 <= batch.first <= batch.last < batch.first + BATCH_ROUNDS:
            raise SecureError(f"{self.site} does not know these rounds.")
        return batch

    def file(self, identifier: str) -> Path:
        return self.folder / f"keys-{identifier}.json"

    def read(self, batch: Batch) -> dict[str, Any]:
        path = self.file(batch.id)
        if not path.exists():
            raise SecureError(f"{self.site} has no keys for this sum.")
        facts: dict[str, Any] = json.loads(path.read_text())
        if facts["batch"] != asdict(batch):
            raise SecureError(f"{self.site} has keys for other rounds.")
        return facts

    def write(self, batch: Batch, facts: dict[str, Any]) -> None:
        write_atomically(self.file(batch.id), json.dumps(facts).encode())

    def forget_old(self) -> None:
        files = sorted(self.folder.glob("keys-*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in files[:-_KEPT_BATCHES]:
            path.unlink()


def adverts_in(facts: dict[str, Any], batch: Batch) -> dict[str, Advert]:
    """The keys of all members, which were verified when they arrived."""
    return {site: Advert.parse(text, batch) for site, text in facts["adverts"].items()}


def view_of(texts: Mapping[str, str]) -> str:
    """A digest of the keys of all sites, as one site was given them."""
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()


def statement_of(facts: dict[str, Any], batch: Batch, number: int, summed: Participants) -> bytes:
    """What a site signs: who is in the sum of a round, of which members, with which keys."""
    return batch.statement(number, view_of(facts["adverts"]), summed.members, summed.survivors)


def signers(
    message: Payload, facts: dict[str, Any], number: int, summed: Participants
) -> list[str]:
    """The survivors of a sum whose signatures of exactly this list are in the message."""
    batch = Batch(**facts["batch"])
    adverts, statement = adverts_in(facts, batch), statement_of(facts, batch, number, summed)
    return [
        site
        for site, signature in signatures_in(message).items()
        if site in summed.survivors
        and site in adverts
        and is_confirmed(statement, signature, adverts[site].signing)
    ]
