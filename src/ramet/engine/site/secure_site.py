"""A site's side of secure sums: its keys, its masks, and the lists of survivors that it has signed.

Everything is on the site's disk before a reply leaves. A site answers each round with one message
(:mod:`ramet.engine.site.run_answers`) and one list of survivors: asked again for the same, it sends
the same bytes; asked for anything else, it refuses. So a killed site or server goes on, and no mask
is used for two messages. Who is to be in a sum follows from the site's own list of members, not
from what the server says.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from secrets import token_bytes
from typing import Any

import numpy as np
from filelock import FileLock

from ramet.disk import write_atomically
from ramet.engine.secure_messages import (
    AGREE,
    BATCH,
    BATCH_ID,
    BATCH_ROUNDS,
    CONFIRMED,
    KEYS,
    MEMBERS,
    QUESTIONS,
    SHARES,
    STEP,
    SURVIVORS,
    UNMASK,
    SecureError,
    Summed,
    context_digest,
    names_in,
    signatures_in,
    to_bytes,
    to_text,
)
from ramet.engine.site.run_answers import Kept, RunAnswers
from ramet.payload import Array, Payload, under
from ramet.secure.adverts import Advert, Batch, Secrets, is_confirmed
from ramet.secure.identity import Identity, Peers, simulated_peers
from ramet.secure.masks import SEED_BYTES, derived
from ramet.secure.protocol import mask_terms, open_shares, revealed, seal_shares
from ramet.secure.shares import SMALLEST, threshold

_KEPT_BATCHES = 4
_OWN_SHARES = 2 * SEED_BYTES
ASKED = "asked"
"""The folder of what was asked in secure sums, in the folder of a site's state, as for all runs.

The state of a run is in `clients/RUN/SITE/secure` below it.
"""
_SUM = "sum"
"""The kind of all answers under masks: a round has one, to train or to evaluate."""


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
        smallest: the smallest number of sites in a sum, as the site's owner has set it. None for
            the default: all of its list exchange keys and are in each sum.
        config: a digest of the run's settings, which all members of a sum must have in common.
        asked: the folder with what was asked in all runs, so that no two sums over different sites
            answer the same question; None in a simulation.
    """

    site: str
    run: str
    folder: Path
    identity: Identity
    peers: Peers
    draw: Callable[[str, str, int], bytes]
    smallest: int | None = SMALLEST
    config: str = ""
    asked: Path | None = None

    @cached_property
    def answers(self) -> RunAnswers:
        """What the site has sent under masks."""
        return RunAnswers(self.folder)

    def answer(self, message: Payload) -> Payload:
        """Answer a step before or after training."""
        with self.answers.locked():
            return self._step(message)

    def _step(self, message: Payload) -> Payload:
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

    def once(self, message: Payload, compute: Callable[[], Payload]) -> Payload:
        """The reply to a message to train or to evaluate, under masks."""
        if {"spared", "stage"} & message.notes.keys():
            raise SecureError(
                f"{self.site} sends all arrays of a secure sum at once: with a part of them it "
                "could be asked for what other sites are not asked for."
            )

        def answer() -> Kept:
            self._check_new(message, int(message.numbers["round"]))
            return self._masked(message, compute())

        return self.answers.once(message, answer, _SUM)

    def _masked(self, message: Payload, reply: Payload) -> Kept:
        """The reply under masks, and what the site must know to unmask its sum."""
        number, batch = int(message.numbers["round"]), self._batch(message)
        facts = self._read(batch)
        members = facts[MEMBERS]
        adverts = _adverts(facts, batch)
        secrets = Secrets.from_json(facts["secrets"])
        others = {peer: adverts[peer] for peer in members if peer != self.site}
        context = context_digest(message, self.config)
        terms = mask_terms(reply.arrays, batch, number, self.site, secrets, others, context)
        told = () if self.asked is not None else ("private",)
        sent = Payload(terms, {}, {name: reply.notes[name] for name in told if name in reply.notes})
        return sent, {BATCH: batch.id, QUESTIONS: json.loads(reply.notes.get(QUESTIONS, "{}"))}

    def _advert(self, batch: Batch) -> str:
        """The site's keys for a batch: new ones if it was not asked for them before."""
        if not self._keys_file(batch.id).exists():
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
            self._check_members(texts.keys(), "members")
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
        self._check_members(members, "members")
        if facts.setdefault(MEMBERS, members) != members:
            raise SecureError(f"{self.site} was told other members for these rounds before.")
        if number > 1:
            self._check_confirmed(message, number - 1, batch)
        self._write(batch, facts)

    def _check_confirmed(self, message: Payload, number: int, batch: Batch) -> None:
        """Check that enough sites have unmasked the round before, for the survivors that are named.

        So a server can skip no round. A site that missed the round learns the list from the
        message. One that missed the keys too cannot check it. If it has answered nothing in this
        run, it begins with the first round of a batch, as its owner has allowed sums without it;
        otherwise with the second, because the first is one that it can check.
        """
        summed, own = Summed.in_message(message), self.answers.entry(number, _SUM) or {}
        path = self._keys_file(summed.batch)
        is_first = not self.answers.newest and not path.exists() and number < batch.first
        if is_first and self.smallest is not None:
            return
        told = own.get(BATCH, summed.batch), own.get(SURVIVORS, summed.survivors)
        is_same = told == (summed.batch, summed.survivors) and path.exists()
        if not is_same or not self._is_agreed(
            message, json.loads(path.read_text()), number, summed, all_must_fit=True
        ):
            raise SecureError(
                f"{self.site} stops: the sites do not confirm the same survivors of round {number}."
            )

    def _is_agreed(
        self,
        message: Payload,
        facts: dict[str, Any],
        number: int,
        summed: Summed,
        all_must_fit: bool = False,
    ) -> bool:
        """Whether the message has the signatures of enough survivors for exactly this list."""
        batch = Batch(**facts["batch"])
        if "adverts" not in facts or number not in batch.rounds:
            return False
        adverts, signatures = _adverts(facts, batch), signatures_in(message)
        statement = _statement(facts, batch, number, summed)
        valid = [
            site
            for site, signature in signatures.items()
            if site in summed.survivors
            and site in adverts
            and is_confirmed(statement, signature, adverts[site].signing)
        ]
        enough = len(valid) >= self._needed
        return enough and (len(valid) == len(signatures) or not all_must_fit)

    def _after_training(self, batch: Batch, message: Payload) -> Payload:
        """Sign one list of survivors per round, and reveal shares for it if others have signed it.

        Without signatures, sites that were told different lists, each long enough, would together
        reveal the sum of two of them. If all members are in the sum, no key is revealed that
        could be combined with other lists, so that no signatures are needed.
        """
        number, survivors = int(message.numbers["round"]), names_in(message, SURVIVORS)
        entry = self.answers.entry(number, _SUM) or {}
        if entry.get(BATCH) != batch.id:
            raise SecureError(f"{self.site} has sent nothing in round {number} with these keys.")
        facts = self._read(batch)
        members = facts[MEMBERS]
        if self.site not in survivors or not {*survivors} <= {*members}:
            raise SecureError(f"{self.site} refuses a list of survivors that are not members.")
        self._check_members(survivors, "survivors")
        if entry.get(SURVIVORS, survivors) != survivors:
            raise SecureError(f"{self.site} has already signed another list for round {number}.")
        self._check_asked(entry[QUESTIONS], survivors)
        secrets, summed = Secrets.from_json(facts["secrets"]), Summed(batch.id, members, survivors)
        signature = secrets.signing_key.sign(_statement(facts, batch, number, summed)).hex()
        signed = Payload(notes={CONFIRMED: signature})
        if message.notes[STEP] == UNMASK:
            if survivors != members and not self._is_agreed(message, facts, number, summed):
                raise SecureError(
                    f"{self.site} reveals nothing: too few sites have signed this list of "
                    f"survivors of round {number}."
                )
            shares = self._revealed(batch, message, facts, survivors)
            signed = replace(signed, extras={SHARES: shares})
        self.answers.amend(number, _SUM, {SURVIVORS: survivors})
        return signed

    def _check_asked(self, questions: Mapping[str, str], survivors: list[str]) -> None:
        """Refuse a second sum about the same network over other sites, in whichever run.

        The difference of the two would be the answer of single sites.
        """
        if self.asked is None:
            return
        self.asked.mkdir(parents=True, exist_ok=True, mode=0o700)
        with FileLock(self.asked / ".lock"):
            for kind, model in questions.items():
                path = self.asked / f"{kind}-{model}.json"
                if not path.exists():
                    write_atomically(path, json.dumps(survivors).encode())
                if json.loads(path.read_text()) != survivors:
                    raise SecureError(
                        f"{self.site} has already answered about this model in a sum over other "
                        "sites, and the difference of both sums would tell the answer of single "
                        "sites. Start a new run with another seed."
                    )

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

    @property
    def _needed(self) -> int:
        """How many sites must be in a sum: more than half of the site's own list."""
        return max(threshold(len(self.peers.fingerprints)), self.smallest or 0)

    def _check_members(self, sites: Collection[str], what: str) -> None:
        """Check who exchanges keys or is in a sum: by default all of the site's own list.

        A coordinator may lie about who has dropped out, and two sums about nearly the same model,
        of which one lacks a site, differ by the update of that site.
        """
        missing = sorted(self.peers.fingerprints.keys() - {*sites})
        if self.smallest is None and missing:
            raise SecureError(
                f"{self.site} takes part in sums of all sites in its list of members, and "
                f"{', '.join(missing)} {'is' if len(missing) == 1 else 'are'} missing. To go on "
                f"without, its owner sets `members` in policy.toml to {len(sites)} or less, or "
                "removes who has left from members.toml."
            )
        if len(sites) < self._needed:
            raise SecureError(
                f"{self.site} refuses a sum of {len(sites)} {what}; it needs {self._needed}."
            )

    def _batch(self, message: Payload) -> Batch:
        try:
            identifier, first, last = json.loads(message.notes[BATCH])
            batch = Batch(self.run, str(identifier), int(first), int(last))
        except (KeyError, ValueError, TypeError) as error:
            raise SecureError(f"{self.site} answers in secure sums only.") from error
        is_id = re.fullmatch(BATCH_ID, batch.id)
        if not is_id or not 1 <= batch.first <= batch.last < batch.first + BATCH_ROUNDS:
            raise SecureError(f"{self.site} does not know these rounds.")
        return batch

    def _keys_file(self, identifier: str) -> Path:
        return self.folder / f"keys-{identifier}.json"

    def _read(self, batch: Batch) -> dict[str, Any]:
        path = self._keys_file(batch.id)
        if not path.exists():
            raise SecureError(f"{self.site} has no keys for this sum.")
        facts: dict[str, Any] = json.loads(path.read_text())
        if facts["batch"] != asdict(batch):
            raise SecureError(f"{self.site} has keys for other rounds.")
        return facts

    def _write(self, batch: Batch, facts: dict[str, Any]) -> None:
        write_atomically(self._keys_file(batch.id), json.dumps(facts).encode())

    def _forget_old_batches(self) -> None:
        files = sorted(self.folder.glob("keys-*.json"), key=lambda path: path.stat().st_mtime_ns)
        for path in files[:-_KEPT_BATCHES]:
            path.unlink()


def simulated_site(
    site: str, run: str, folder: Path, seed: int, sites: tuple[str, ...], config: str = ""
) -> SecureSite:
    """A site whose keys follow from the seed: the same sums, without any protection."""

    def draw(batch: str, purpose: str, count: int) -> bytes:
        return derived(str(seed).encode(), "simulated keys", site, batch, purpose)[:count]

    peers, identity = simulated_peers(seed, tuple(sites)), Identity.simulated(seed, site)
    return SecureSite(site, run, folder, identity, peers, draw, config=config)


def deployed_site(
    simulated: SecureSite, key: Path, members: Path, smallest: int | None
) -> SecureSite:
    """A site with its own key and list of members, and keys from the operating system."""
    return replace(
        simulated,
        identity=Identity.read(key),
        peers=Peers.read(members),
        draw=lambda batch, purpose, count: token_bytes(count),  # noqa: ARG005
        smallest=smallest,
        asked=simulated.folder.parents[3] / ASKED,
    )


def _adverts(facts: dict[str, Any], batch: Batch) -> dict[str, Advert]:
    """The keys of all members, which were verified when they arrived."""
    return {site: Advert.parse(text, batch) for site, text in facts["adverts"].items()}


def _view(texts: Mapping[str, str]) -> str:
    """A digest of the keys of all sites, as one site was given them."""
    return hashlib.sha256(json.dumps(texts, sort_keys=True).encode()).hexdigest()


def _statement(facts: dict[str, Any], batch: Batch, number: int, summed: Summed) -> bytes:
    """What a site signs: who is in the sum of a round, of which members, with which keys."""
    return batch.statement(number, _view(facts["adverts"]), summed.members, summed.survivors)
