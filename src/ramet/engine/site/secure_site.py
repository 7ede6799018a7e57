"""A site's side of secure sums: its keys, its masks, and the lists of survivors that it has signed.

Everything is on the site's disk before a reply leaves. A site answers each round with one message
(:mod:`ramet.engine.site.run_answers`) and one list of survivors: asked again for the same, it sends
the same bytes; asked for anything else, it refuses. So a killed site or server goes on, and no mask
is used for two messages. Who is to be in a sum follows from the site's own list of members, not
from what the server says.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from pathlib import Path
from secrets import token_bytes
from typing import Any

import numpy as np

from ramet.engine.messages import PRIVATE_STATE
from ramet.engine.secure_messages import (
    AGREE,
    BATCH,
    CONFIRMED,
    KEYS,
    MEMBERS,
    QUESTIONS,
    SHARES,
    STEP,
    SUM,
    SURVIVORS,
    TAG,
    UNMASK,
    Participants,
    SecureError,
    context_digest,
    names_in,
    signatures_in,
    to_bytes,
    to_text,
)
from ramet.engine.site.members import AskedSums, Members
from ramet.engine.site.run_answers import RunAnswers
from ramet.engine.site.secure_keys import SecureKeys, adverts_in, signers, statement_of, view_of
from ramet.payload import Array, Payload, under
from ramet.secure.adverts import Advert, Batch, Secrets
from ramet.secure.identity import Identity, Peers, simulated_peers
from ramet.secure.masks import SEED_BYTES, derived
from ramet.secure.protocol import mask_terms, open_shares, revealed, seal_shares

_OWN_SHARES = 2 * SEED_BYTES
ASKED = "asked"
"""The folder of what was asked in secure sums, in the folder of a site's state, as for all runs.

The state of a run is in `clients/RUN/SITE/secure` below it.
"""


@dataclass(frozen=True)
class SecureSite:
    """One site in the secure sums of one run.

    Args:
        site: the site's name.
        run: the run's name.
        folder: where the keys and the ledger are kept.
        identity: the site's long-lived key.
        members: the sites that it accepts.
        draw: returns random bytes for a batch and a purpose.
        config: a digest of the run's settings, which all members of a sum must have in common.
        asked: what was asked in all runs, so that no two sums over different sites answer the same
            question; None in a simulation.
    """

    site: str
    run: str
    folder: Path
    identity: Identity
    members: Members
    draw: Callable[[str, str, int], bytes]
    config: str = ""
    asked: AskedSums | None = None

    @cached_property
    def keys(self) -> SecureKeys:
        return SecureKeys(self.site, self.run, self.folder)

    @cached_property
    def answers(self) -> RunAnswers:
        """What the site has sent under masks."""
        return RunAnswers(self.folder)

    def answer(self, message: Payload) -> Payload:
        """Answer a step before or after training."""
        with self.answers.locked():
            return self._step(message)

    def _step(self, message: Payload) -> Payload:
        step, batch = message.notes[STEP], self.keys.batch(message)
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

    def check_whole(self, message: Payload) -> None:
        """Refuse a message to train or to evaluate that asks for a part of the reply."""
        if {"spared", "stage"} & message.notes.keys():
            raise SecureError(
                f"{self.site} sends all arrays of a secure sum at once: with a part of them it "
                "could be asked for what other sites are not asked for."
            )

    def masked(self, message: Payload, reply: Payload) -> Payload:
        """The reply under masks, with notes on what the site must know to unmask its sum."""
        number, batch = int(message.numbers["round"]), self.keys.batch(message)
        facts = self.keys.read(batch)
        members = facts[MEMBERS]
        adverts = adverts_in(facts, batch)
        secrets = Secrets.from_json(facts["secrets"])
        others = {peer: adverts[peer] for peer in members if peer != self.site}
        context = context_digest(message, self.config)
        terms = mask_terms(reply.arrays, batch, number, self.site, secrets, others, context)
        own = {n: note for n, note in reply.notes.items() if n in (PRIVATE_STATE, TAG)}
        return Payload(
            terms, {}, {**own, BATCH: batch.id, QUESTIONS: reply.notes.get(QUESTIONS, "{}")}
        )

    def _advert(self, batch: Batch) -> str:
        """The site's keys for a batch: new ones if it was not asked for them before."""
        if not self.keys.file(batch.id).exists():
            secrets = Secrets.drawn(batch, lambda purpose, n: self.draw(batch.id, purpose, n))
            advert = Advert.of(secrets, batch, self.site).text(batch, self.identity)
            facts = {"batch": asdict(batch), "secrets": secrets.to_json(), "advert": advert}
            self.keys.write(batch, facts)
            self.keys.forget_old()
        return str(self.keys.read(batch)["advert"])

    def _shares(self, batch: Batch, texts: dict[str, str]) -> dict[str, bytes]:
        """Shares of the site's seeds for each peer, for one set of members per batch."""
        facts = self.keys.read(batch)
        if "adverts" not in facts:
            if texts.get(self.site) != facts["advert"]:
                raise SecureError(f"the members of this sum do not include {self.site}'s own keys.")
            self.members.check(texts.keys(), "members")
            peers = self.members.peers
            adverts = {s: Advert.verified(text, batch, s, peers) for s, text in texts.items()}
            secrets = Secrets.from_json(facts["secrets"])
            sealed, kept = seal_shares(batch, self.site, secrets, adverts, view_of(texts))
            outgoing = {peer: content.hex() for peer, content in sealed.items()}
            facts |= {"adverts": texts, "outgoing": outgoing, "kept": kept.hex()}
            self.keys.write(batch, facts)
        if facts["adverts"] != texts:
            raise SecureError(f"{self.site} has already shared its seeds with other members.")
        return {peer: bytes.fromhex(content) for peer, content in facts["outgoing"].items()}

    def check_new(self, message: Payload) -> None:
        """Check the members of a new sum; they are the same in all rounds of a batch."""
        number, batch = int(message.numbers["round"]), self.keys.batch(message)
        facts = self.keys.read(batch)
        adverts, members = facts.get("adverts", {}), names_in(message, MEMBERS)
        if (
            number not in batch.rounds
            or self.site not in members
            or not adverts.keys() >= {*members}
        ):
            raise SecureError(f"{self.site} has no keys of all members for round {number}.")
        self.members.check(members, "members")
        if facts.setdefault(MEMBERS, members) != members:
            raise SecureError(f"{self.site} has received other members for these rounds before.")
        if number > 1:
            self._check_confirmed(message, number - 1, batch)
        self.keys.write(batch, facts)

    def _check_confirmed(self, message: Payload, number: int, batch: Batch) -> None:
        """Check that enough sites have unmasked the round before, for the survivors that are named.

        So a server can skip no round. A site that missed the round learns the list from the
        message. One that missed the keys too cannot check it. If it has answered nothing in this
        run, it begins with the first round of a batch, as its owner has allowed sums without it;
        otherwise with the second, because the first is one that it can check.
        """
        summed, own = Participants.in_message(message), self.answers.entry(number, SUM) or {}
        path = self.keys.file(summed.batch)
        is_first = not self.answers.newest and not path.exists() and number < batch.first
        if is_first and self.members.smallest is not None:
            return
        kept = own.get(BATCH, summed.batch), own.get(SURVIVORS, summed.survivors)
        is_same = kept == (summed.batch, summed.survivors) and path.exists()
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
        summed: Participants,
        all_must_fit: bool = False,
    ) -> bool:
        """Whether the message has the signatures of enough survivors for exactly this list."""
        batch = Batch(**facts["batch"])
        if "adverts" not in facts or number not in batch.rounds:
            return False
        signed, valid = signatures_in(message), signers(message, facts, number, summed)
        enough = len(valid) >= self.members.needed
        return enough and (len(valid) == len(signed) or not all_must_fit)

    def _after_training(self, batch: Batch, message: Payload) -> Payload:
        """Sign one list of survivors per round, and reveal shares for it if others have signed it.

        Without signatures, sites that got different lists, each long enough, would together
        reveal the sum of two of them. If all members are in the sum, no key is revealed that
        could be combined with other lists, so that no signatures are needed.
        """
        number, survivors = int(message.numbers["round"]), names_in(message, SURVIVORS)
        entry = self.answers.entry(number, SUM) or {}
        if entry.get(BATCH) != batch.id:
            raise SecureError(f"{self.site} has sent nothing in round {number} with these keys.")
        facts = self.keys.read(batch)
        members = facts[MEMBERS]
        if self.site not in survivors or not {*survivors} <= {*members}:
            raise SecureError(f"{self.site} refuses a list of survivors that are not members.")
        self.members.check(survivors, "survivors")
        if entry.get(SURVIVORS, survivors) != survivors:
            raise SecureError(f"{self.site} has already signed another list for round {number}.")
        if self.asked is not None:
            self.asked.check(json.loads(entry[QUESTIONS]), survivors)
        secrets, summed = (
            Secrets.from_json(facts["secrets"]),
            Participants(batch.id, members, survivors),
        )
        signature = secrets.signing_key.sign(statement_of(facts, batch, number, summed)).hex()
        signed = Payload(notes={CONFIRMED: signature})
        if message.notes[STEP] == UNMASK:
            if survivors != members and not self._is_agreed(message, facts, number, summed):
                raise SecureError(
                    f"{self.site} reveals nothing: too few sites have signed this list of "
                    f"survivors of round {number}."
                )
            shares = _revealed(self.site, batch, message, facts, survivors)
            signed = replace(signed, extras={SHARES: shares})
        self.answers.amend(number, SUM, {SURVIVORS: survivors})
        return signed


def simulated_site(
    site: str, run: str, folder: Path, seed: int, sites: tuple[str, ...], config: str = ""
) -> SecureSite:
    """A site whose keys follow from the seed: the same sums, without any protection."""

    def draw(batch: str, purpose: str, count: int) -> bytes:
        return derived(str(seed).encode(), "simulated keys", site, batch, purpose)[:count]

    members = Members(site, simulated_peers(seed, tuple(sites)))
    return SecureSite(site, run, folder, Identity.simulated(seed, site), members, draw, config)


def deployed_site(
    simulated: SecureSite, key: Path, members: Path, smallest: int | None
) -> SecureSite:
    """A site with its own key and list of members, and keys from the operating system."""
    return replace(
        simulated,
        identity=Identity.read(key),
        members=replace(simulated.members, peers=Peers.read(members), smallest=smallest),
        draw=lambda batch, purpose, count: token_bytes(count),  # noqa: ARG005
        asked=AskedSums(simulated.site, simulated.folder.parents[3] / ASKED),
    )


def _revealed(
    site: str, batch: Batch, message: Payload, facts: dict[str, Any], survivors: list[str]
) -> Array:
    """Shares of each survivor's own mask, and of each other member's key."""
    number, members = int(message.numbers["round"]), facts[MEMBERS]
    adverts, secrets = adverts_in(facts, batch), Secrets.from_json(facts["secrets"])
    view, shares = view_of(facts["adverts"]), []
    for member in members:
        if member == site:
            start = (number - batch.first) * _OWN_SHARES
            both = bytes.fromhex(facts["kept"])[start : start + _OWN_SHARES]
        else:
            sealed = message.extras.get(f"shares/{member}", np.zeros(0, np.uint8)).tobytes()
            both = open_shares(sealed, batch, number, adverts[member], site, secrets, view)
        shares.append(np.frombuffer(revealed(both, member in survivors), np.uint8))
    return np.stack(shares)
