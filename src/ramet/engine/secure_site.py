"""A site's side of secure sums: its keys, its masks, and what it has already answered.

Everything is on the site's disk before a reply leaves. A site answers each round with one message
and one list of survivors: asked again for the same, it sends the same bytes; asked for anything
else, it refuses. So a killed site or server goes on, and no mask is used for two messages.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from secrets import token_bytes
from typing import Any

import numpy as np
from filelock import FileLock
from safetensors.numpy import load, save

from ramet.disk import write_atomically
from ramet.engine.checkpoint import KEPT
from ramet.engine.secure_messages import (
    AGREE,
    BATCH,
    CONFIRMED,
    KEYS,
    MEMBERS,
    SHARES,
    STEP,
    SURVIVORS,
    UNMASK,
    SecureError,
    context_digest,
    names_in,
    request_digest,
    signatures_in,
    to_bytes,
    to_text,
)
from ramet.payload import Array, Payload, under
from ramet.secure.adverts import Advert, Batch, Secrets, is_confirmed
from ramet.secure.identity import Identity, Peers, simulated_peers
from ramet.secure.masks import SEED_BYTES, derived
from ramet.secure.protocol import mask_terms, open_shares, revealed, seal_shares
from ramet.secure.shares import SMALLEST, threshold

_LONGEST_BATCH = 1000
_KEPT_BATCHES = 4
_OWN_SHARES = 2 * SEED_BYTES


@dataclass(frozen=True)
class SecureSite:
    """One site in the secure sums of one run.

    Args:
        site: the site's name.
        run: the run's name.
        folder: where the keys and the ledger are kept.
        identity: the site's long-lived key.
        peers: the sites that it accepts.
        draw: returns random bytes for a batch and a purpose.
        smallest: the smallest number of sites in a sum that it takes part in.
        config: a digest of the run's settings, which all members of a sum must have in common.
    """

    site: str
    run: str
    folder: Path
    identity: Identity
    peers: Peers
    draw: Callable[[str, str, int], bytes]
    smallest: int = SMALLEST
    config: str = ""

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Answer one message at a time, also in several processes."""
        self.folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self.folder / ".lock"):
            yield

    def answer(self, message: Payload) -> Payload:
        """Answer a step before or after training."""
        step, batch = message.notes[STEP], self._batch(message)
        if step == KEYS:
            return Payload(extras={KEYS: to_bytes(self._advert(batch))})
        if step == SHARES:
            texts = {site: to_text(keys) for site, keys in under("keys/", message.extras).items()}
            shares = self._shares(batch, texts)
            return Payload(
                extras={f"shares/{peer}": to_bytes(content) for peer, content in shares.items()}
            )
        if step in (AGREE, UNMASK):
            return self._after_training(batch, message)
        raise SecureError(f"{self.site} does not know the step '{step}' of a secure sum.")

    def earlier_reply(self, message: Payload) -> Payload | None:
        """The reply that the site has already sent to this message; None if it is a new one.

        A message for a round that was answered before, with another content, is refused.
        """
        number = int(message.numbers["round"])
        if {"spared", "stage"} & message.notes.keys():
            raise SecureError(
                f"{self.site} sends all arrays of a secure sum at once: with a part of them it "
                "could be asked for what other sites are not asked for."
            )
        entry = self._ledger().get(str(number))
        if entry is None:
            self._check_new(message, number)
            return None
        if entry["request"] != request_digest(message):
            raise SecureError(
                f"{self.site} has already answered round {number}, to another message. A second "
                "answer could reveal the first."
            )
        return self._saved_reply(number, entry)

    def masked(self, message: Payload, reply: Payload) -> Payload:
        """The reply under masks, kept on disk for the case that it is lost."""
        number, batch = int(message.numbers["round"]), self._batch(message)
        facts = self._read(batch)
        members = facts[MEMBERS]
        adverts = _adverts(facts, batch)
        secrets = Secrets.from_json(facts["secrets"])
        others = {peer: adverts[peer] for peer in members if peer != self.site}
        context = context_digest(message, self.config)
        terms = mask_terms(reply.arrays, batch, number, self.site, secrets, others, context)
        sent = Payload(terms, {}, {k: v for k, v in reply.notes.items() if k == "private"})
        write_atomically(self._reply_file(number), save(dict(terms)))
        request = request_digest(message)
        self._note(number, {BATCH: batch.id, "request": request, "notes": dict(sent.notes)})
        self._reply_file(number - KEPT).unlink(missing_ok=True)
        return sent

    def _advert(self, batch: Batch) -> str:
        """The site's keys for a batch: new ones if it was not asked for them before."""
        if not self._file(batch).exists():
            secrets = Secrets.drawn(batch, lambda purpose, n: self.draw(batch.id, purpose, n))
            advert = Advert.of(secrets, batch, self.site).text(batch, self.identity)
            facts = {"batch": asdict(batch), "secrets": secrets.to_json(), "advert": advert}
            self._write(batch, facts)
            self._forget_old_batches()
        return str(self._read(batch)["advert"])

    def _shares(self, batch: Batch, texts: dict[str, str]) -> dict[str, bytes]:
        """Shares of the site's seeds for each peer, for one set of members per batch."""
        facts = self._read(batch)
        if "adverts" not in facts:
            if texts.get(self.site) != facts["advert"]:
                raise SecureError(f"the members of this sum do not include {self.site}'s own keys.")
            self._check_size(len(texts), "members")
            adverts = {
                site: Advert.verified(text, batch, site, self.peers) for site, text in texts.items()
            }
            secrets = Secrets.from_json(facts["secrets"])
            sealed, kept = seal_shares(batch, self.site, secrets, adverts, _view(texts))
            outgoing = {peer: content.hex() for peer, content in sealed.items()}
            facts |= {"adverts": texts, "outgoing": outgoing, "kept": kept.hex()}
            self._write(batch, facts)
        if facts["adverts"] != texts:
            raise SecureError(f"{self.site} has already shared its seeds with other members.")
        return {peer: bytes.fromhex(content) for peer, content in facts["outgoing"].items()}

    def _check_new(self, message: Payload, number: int) -> None:
        """Check the members of a new sum; they are the same in all rounds of a batch."""
        batch = self._batch(message)
        facts = self._read(batch)
        adverts, members = facts.get("adverts", {}), names_in(message, MEMBERS)
        if (
            number not in batch.rounds
            or self.site not in members
            or not adverts.keys() >= {*members}
        ):
            raise SecureError(f"{self.site} has no keys of all members for round {number}.")
        self._check_size(len(members), "members", threshold(len(adverts)))
        if facts.setdefault(MEMBERS, members) != members:
            raise SecureError(f"{self.site} was told other members for these rounds before.")
        self._check_confirmed(message, number - 1)
        self._write(batch, facts)

    def _check_confirmed(self, message: Payload, number: int) -> None:
        """Check that enough sites have unmasked the round before for the same survivors."""
        entry = self._ledger().get(str(number), {})
        if SURVIVORS not in entry:
            return
        facts, survivors = self._read_id(entry[BATCH]), entry[SURVIVORS]
        if not self._is_agreed(message, facts, number, survivors, all_must_fit=True):
            raise SecureError(
                f"{self.site} stops: the sites do not confirm the same survivors of round {number}."
            )

    def _is_agreed(
        self,
        message: Payload,
        facts: dict[str, Any],
        number: int,
        survivors: list[str],
        all_must_fit: bool = False,
    ) -> bool:
        """Whether the message has the signatures of enough survivors for this very list."""
        batch = Batch(**facts["batch"])
        adverts = _adverts(facts, batch)
        statement, signatures = _statement(facts, batch, number, survivors), signatures_in(message)
        valid = [
            site
            for site, signature in signatures.items()
            if site in survivors and is_confirmed(statement, signature, adverts[site].signing)
        ]
        enough = len(valid) >= max(threshold(len(adverts)), self.smallest)
        return enough and (len(valid) == len(signatures) or not all_must_fit)

    def _after_training(self, batch: Batch, message: Payload) -> Payload:
        """Sign one list of survivors per round, and reveal shares for it if others have signed it.

        Without signatures, sites that were told different lists, each long enough, would together
        reveal the sum of two of them. If all members are in the sum, no key is revealed that
        could be combined with other lists, so that no signatures are needed.
        """
        number, survivors = int(message.numbers["round"]), names_in(message, SURVIVORS)
        entry = self._ledger().get(str(number), {})
        if entry.get(BATCH) != batch.id:
            raise SecureError(f"{self.site} has sent nothing in round {number} with these keys.")
        facts = self._read(batch)
        adverts, members = _adverts(facts, batch), facts[MEMBERS]
        if self.site not in survivors or not {*survivors} <= {*members}:
            raise SecureError(f"{self.site} refuses a list of survivors that are no members.")
        self._check_size(len(survivors), "survivors", threshold(len(adverts)))
        if entry.setdefault(SURVIVORS, survivors) != survivors:
            raise SecureError(f"{self.site} has already signed another list for round {number}.")
        secrets = Secrets.from_json(facts["secrets"])
        signature = secrets.signing_key.sign(_statement(facts, batch, number, survivors)).hex()
        if message.notes[STEP] == AGREE:
            self._note(number, entry)
            return Payload(notes={CONFIRMED: signature})
        if survivors != members and not self._is_agreed(message, facts, number, survivors):
            raise SecureError(
                f"{self.site} reveals nothing: too few sites have signed this list of survivors of "
                f"round {number}."
            )
        shares = self._revealed(batch, message, facts, survivors)
        self._note(number, entry)
        return Payload(extras={SHARES: shares}, notes={CONFIRMED: signature})

    def _revealed(
        self, batch: Batch, message: Payload, facts: dict[str, Any], survivors: list[str]
    ) -> Array:
        """Shares of each survivor's own mask, and of each other member's key."""
        number, members = int(message.numbers["round"]), facts[MEMBERS]
        adverts, secrets = _adverts(facts, batch), Secrets.from_json(facts["secrets"])
        view, shares = _view(facts["adverts"]), []
        for member in members:
            if member == self.site:
                start = (number - batch.first) * _OWN_SHARES
                both = bytes.fromhex(facts["kept"])[start : start + _OWN_SHARES]
            else:
                sealed = message.extras.get(f"shares/{member}", np.zeros(0, np.uint8)).tobytes()
                both = open_shares(sealed, batch, number, adverts[member], self.site, secrets, view)
            shares.append(np.frombuffer(revealed(both, member in survivors), np.uint8))
        return np.stack(shares)

    def _check_size(self, count: int, what: str, needed: int = SMALLEST) -> None:
        needed = max(needed, self.smallest)
        if count < needed:
            raise SecureError(f"{self.site} refuses a sum of {count} {what}; it needs {needed}.")

    def _saved_reply(self, number: int, entry: dict[str, Any]) -> Payload:
        path = self._reply_file(number)
        if not path.exists():
            raise SecureError(f"{self.site} no longer has its reply of round {number}.")
        return Payload(load(path.read_bytes()), {}, entry["notes"])

    def _batch(self, message: Payload) -> Batch:
        try:
            identifier, first, last = json.loads(message.notes[BATCH])
            batch = Batch(self.run, str(identifier), int(first), int(last))
        except (KeyError, ValueError, TypeError) as error:
            raise SecureError(f"{self.site} answers in secure sums only.") from error
        is_id = re.fullmatch(r"[0-9a-f]{32}", batch.id)
        if not is_id or not 1 <= batch.first <= batch.last < batch.first + _LONGEST_BATCH:
            raise SecureError(f"{self.site} does not know these rounds.")
        return batch

    def _file(self, batch: Batch) -> Path:
        return self.folder / f"keys-{batch.id}.json"

    def _reply_file(self, number: int) -> Path:
        return self.folder / f"reply-{number:06d}.safetensors"

    def _read(self, batch: Batch) -> dict[str, Any]:
        facts = self._read_id(batch.id)
        if facts["batch"] != asdict(batch):
            raise SecureError(f"{self.site} has keys for other rounds.")
        return facts

    def _read_id(self, identifier: str) -> dict[str, Any]:
        path = self.folder / f"keys-{identifier}.json"
        if not path.exists():
            raise SecureError(f"{self.site} has no keys for this sum.")
        facts: dict[str, Any] = json.loads(path.read_text())
        return facts

    def _write(self, batch: Batch, facts: dict[str, Any]) -> None:
        write_atomically(self._file(batch), json.dumps(facts).encode())

    def _forget_old_batches(self) -> None:
        files = sorted(self.folder.glob("keys-*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in files[:-_KEPT_BATCHES]:
            path.unlink()

    def _ledger(self) -> dict[str, dict[str, Any]]:
        path = self.folder / "ledger.json"
        ledger: dict[str, dict[str, Any]] = json.loads(path.read_text()) if path.exists() else {}
        return ledger

    def _note(self, number: int, entry: dict[str, Any]) -> None:
        ledger = {**self._ledger(), str(number): entry}
        write_atomically(self.folder / "ledger.json", json.dumps(ledger).encode())


def simulated_site(
    site: str, run: str, folder: Path, seed: int, sites: tuple[str, ...], config: str = ""
) -> SecureSite:
    """A site whose keys follow from the seed: the same sums, without any protection."""

    def draw(batch: str, purpose: str, count: int) -> bytes:
        return derived(str(seed).encode(), "simulated keys", site, batch, purpose)[:count]

    peers, identity = simulated_peers(seed, tuple(sites)), Identity.simulated(seed, site)
    return SecureSite(site, run, folder, identity, peers, draw, config=config)


def deployed_site(simulated: SecureSite, key: Path, members: Path, smallest: int) -> SecureSite:
    """A site with its own key and list of members, and keys from the operating system."""
    return replace(
        simulated,
        identity=Identity.read(key),
        peers=Peers.read(members),
        draw=lambda batch, purpose, count: token_bytes(count),  # noqa: ARG005
        smallest=max(SMALLEST, smallest),
    )


def _adverts(facts: dict[str, Any], batch: Batch) -> dict[str, Advert]:
    """The keys of all members, which were verified when they arrived."""
    return {site: Advert.parse(text, batch) for site, text in facts["adverts"].items()}


def _view(texts: Mapping[str, str]) -> str:
    """A digest of the keys of all sites, as one site was given them."""
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()


def _statement(facts: dict[str, Any], batch: Batch, number: int, survivors: list[str]) -> bytes:
    """What a site signs: who is in the sum of a round, of which members, with which keys."""
    return batch.statement(number, _view(facts["adverts"]), facts[MEMBERS], survivors)
