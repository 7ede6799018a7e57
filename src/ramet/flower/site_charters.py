"""Charters at a site: which it is asked to sign, has signed, and takes part in.

A charter is signed in three steps, each of which may be repeated. The coordinator *proposes* terms,
and the site commits to a share of the seed, if its settings, its policy and its list of members
allow the run. With the commitments of all sites, the charter is complete: the site *signs* it and
opens its commitment. With the signatures of all sites, the run *begins*. The site then answers
messages of this run, whose name is the charter's SHA-256, and of no run that has no charter.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from secrets import token_bytes
from typing import Any

from ramet.disk import sync, write_atomically
from ramet.payload import Payload
from ramet.policy import Policy, PolicyError
from ramet.secure.charter import (
    SECRET_BYTES,
    ChainMember,
    Charter,
    CharterError,
    Pledge,
    SignedCharter,
    canonical,
    common_key,
)
from ramet.secure.identity import Identity, Peers

STEP, PROPOSE, SIGN, BEGIN = "charter", "propose", "sign", "begin"
"""The note with the step, and the steps."""
CONTENT, SEALED, SIGNATURE, SHARE = "content", "sealed", "own signature", "share"
"""Notes: what a step is about, and what the site answers."""
WAITING = "waits for its owner to sign the charter"
"""What a site answers that signs by hand."""
FOLDER = "charters"
"""The folder of a site's charters, in the folder of its state."""
_KEPT = 100
"""How many pledges without a run, and how many waiting proposals, a site keeps: the newest."""
_NAME = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Proposal:
    """A charter before the sites have committed to their shares of the seed."""

    terms: Mapping[str, Any]
    quorum: int
    keys: Mapping[str, str]
    """The public keys of the sites."""
    nonce: str

    @property
    def text(self) -> str:
        return canonical(asdict(self))

    @property
    def digest(self) -> str:
        return hashlib.sha256(self.text.encode()).hexdigest()

    @property
    def agreement(self) -> str:
        """A digest of what a site's owner agrees to: all but the nonce."""
        content = [self.terms, self.quorum, self.keys]
        return hashlib.sha256(canonical(content).encode()).hexdigest()

    @staticmethod
    def parse(text: str) -> Proposal:
        try:
            return Proposal(**json.loads(text))
        except (ValueError, TypeError) as error:
            raise CharterError(f"not a proposal of a charter ({type(error).__name__}).") from error

    @staticmethod
    def of(charter: Charter) -> Proposal:
        keys = {site: member.key for site, member in charter.sites.items()}
        return Proposal(charter.terms, charter.quorum, keys, charter.nonce)


@dataclass(frozen=True)
class Due:
    """What a charter of this run must say, as the site reads it in the run's settings."""

    terms: Mapping[str, Any]
    quorum: int
    sites: Sequence[str]


@dataclass(frozen=True)
class SiteCharters:
    """The charters of one site.

    Args:
        folder: where they are kept.
        site: the site's name.
    """

    folder: Path
    site: str

    def answer(
        self,
        message: Payload,
        identity: Identity,
        peers: Peers,
        due: Due,
        policy: Policy,
    ) -> Payload:
        """Answer a step."""
        step, content = message.notes[STEP], message.notes.get(CONTENT, "")
        if step == PROPOSE:
            proposal = Proposal.parse(content)
            self._check(proposal, identity, peers, due, policy)
            if policy.charters == "by hand":
                self._require_consent(proposal)
            return Payload(notes={CONTENT: canonical(asdict(self._pledged(proposal, identity)))})
        if step == SIGN:
            charter = Charter.parse(content)
            self._check(Proposal.of(charter), identity, peers, due, policy)
            return self._signed(charter, identity, by_hand=policy.charters == "by hand")
        if step == BEGIN:
            self._begin(SignedCharter.parse(content), json.loads(message.notes.get(SEALED, "{}")))
            return Payload(notes={CONTENT: "begun"})
        raise CharterError(f"{self.site} does not know the step '{step}' of a charter.")

    def signed(self, run: str) -> SignedCharter:
        """The charter of a run in which this site takes part."""
        return SignedCharter.parse(self._complete(run)["signed"])

    def member(self, run: str) -> ChainMember:
        charter = self.signed(run).charter
        pledge, _ = self._read_pledge(Proposal.of(charter))
        key = bytes.fromhex(self._complete(run)["key"])
        return ChainMember(charter, self.site, pledge.signing_key, key)

    def all_signed(self) -> list[SignedCharter]:
        """The charters of all runs in which this site takes part."""
        return [self.signed(path.stem) for path in sorted(self.folder.glob("*.json"))]

    def waiting(self) -> list[Proposal]:
        """The proposals that wait for the site's owner."""
        return [Proposal.parse(path.read_text()) for path in sorted(self._waiting.glob("*.json"))]

    def approve(self, proposal: Proposal) -> None:
        """The owner's consent to one charter with these terms."""
        path = self._approved(proposal)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, proposal.text)
        (self._waiting / path.name).unlink(missing_ok=True)

    def _check(
        self,
        proposal: Proposal,
        identity: Identity,
        peers: Peers,
        due: Due,
        policy: Policy,
    ) -> None:
        """Refuse what the site does not sign."""
        if canonical(proposal.terms) != canonical(due.terms):
            differing = _differences(proposal.terms, due.terms)
            raise CharterError(
                f"{self.site} reads other terms in the run's settings than the charter has: "
                f"{', '.join(differing)}."
            )
        if canonical(proposal.quorum) != canonical(due.quorum):
            raise CharterError(f"{self.site} signs a quorum of {due.quorum} only.")
        if sorted(proposal.keys) != sorted(due.sites):
            raise CharterError(f"{self.site} signs with {', '.join(due.sites)} only.")
        if proposal.keys.get(self.site) != identity.public:
            raise CharterError(f"the charter does not name {self.site} with its key.")
        unknown = [s for s, key in proposal.keys.items() if not peers.accepts(s, key)]
        if unknown:
            raise CharterError(
                f"{self.site} does not know the keys of {', '.join(unknown)}. Add these sites with "
                "`ramet deploy member`."
            )
        missing = sorted(peers.fingerprints.keys() - proposal.keys.keys())
        if len(proposal.keys) < (policy.members or 1):
            raise PolicyError(f"`members`: this site takes part with {policy.members} sites only.")
        if missing and policy.members is None:
            raise PolicyError(
                f"`members`: the charter lacks {', '.join(missing)}, and this site takes part only "
                "with all of its list of members."
            )

    def _pledged(self, proposal: Proposal, identity: Identity) -> Any:
        path = self._pledge(proposal)
        if not path.exists():
            pledge = Pledge.drawn(lambda _: token_bytes(SECRET_BYTES))
            self._write(path, {name: value.hex() for name, value in asdict(pledge).items()})
            _forget_old(path.parent, lambda old: not self._has_begun(old))
        return self._read_pledge(proposal)[0].member(self.site, identity.public)

    def _signed(self, charter: Charter, identity: Identity, by_hand: bool) -> Payload:
        proposal = Proposal.of(charter)
        pledge, signed = self._read_pledge(proposal)
        if charter.sites[self.site] != pledge.member(self.site, identity.public):
            raise CharterError(f"the charter has another commitment than {self.site} has made.")
        if signed not in (None, charter.identity):
            raise CharterError(f"{self.site} has signed another charter with this nonce.")
        if signed is None:
            if by_hand:
                self._use_consent(proposal)
            facts = {name: value.hex() for name, value in asdict(pledge).items()}
            self._write(self._pledge(proposal), {**facts, "signed": charter.identity})
        return Payload(
            notes={
                SIGNATURE: identity.sign(charter.statement).hex(),
                SHARE: pledge.share.hex(),
                SEALED: canonical(pledge.sealed(charter, self.site)),
            }
        )

    def _begin(self, signed: SignedCharter, sealed: Mapping[str, str]) -> None:
        charter = signed.charter
        pledge, identity = self._read_pledge(Proposal.of(charter))
        if identity != charter.identity:
            raise CharterError(f"{self.site} has not signed this charter.")
        signed.check()
        if self._path(charter.identity).exists():
            return
        secrets = {self.site: pledge.secret}
        for sender in charter.sites:
            if sender != self.site:
                secrets[sender] = pledge.opened(charter, self.site, sender, sealed.get(sender, ""))
        key = common_key(charter, secrets).hex()
        self._write(self._path(charter.identity), {"signed": signed.text(), "key": key})

    def _require_consent(self, proposal: Proposal) -> None:
        """Refuse a proposal that the owner has not signed, and keep it for the owner to see."""
        if self._approved(proposal).exists():
            return
        self._waiting.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(self._waiting / f"{proposal.agreement}.json", proposal.text)
        _forget_old(self._waiting, lambda _: True)
        raise CharterError(f"{self.site} {WAITING}; it runs `ramet charter sign`.")

    def _use_consent(self, proposal: Proposal) -> None:
        """A consent is used up before the site signs, so that it holds for one charter."""
        self._require_consent(proposal)
        self._approved(proposal).unlink()
        sync(self._approved(proposal).parent)

    def _has_begun(self, pledge: Path) -> bool:
        """Whether a pledge is that of a run, whose messages the site signs with it."""
        signed = json.loads(pledge.read_text()).get("signed")
        return signed is not None and self._path(signed).exists()

    def _complete(self, run: str) -> dict[str, Any]:
        path = self._path(run)
        if not _NAME.fullmatch(run) or not path.exists():
            raise CharterError(f"{self.site} has signed no charter of this run.")
        facts: dict[str, Any] = json.loads(path.read_text())
        return facts

    def _read_pledge(self, proposal: Proposal) -> tuple[Pledge, str | None]:
        path = self._pledge(proposal)
        if not path.exists():
            raise CharterError(f"{self.site} has committed to nothing for this charter.")
        facts = json.loads(path.read_text())
        signed = facts.pop("signed", None)
        return Pledge(**{name: bytes.fromhex(value) for name, value in facts.items()}), signed

    def _write(self, path: Path, facts: Mapping[str, Any]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_atomically(path, json.dumps(dict(facts)), mode=0o600)

    def _path(self, run: str) -> Path:
        return self.folder / f"{run}.json"

    def _pledge(self, proposal: Proposal) -> Path:
        return self.folder / "pledges" / f"{proposal.digest}.json"

    def _approved(self, proposal: Proposal) -> Path:
        return self.folder / "approved" / f"{proposal.agreement}.json"

    @property
    def _waiting(self) -> Path:
        return self.folder / "waiting"


def _forget_old(folder: Path, may_go: Callable[[Path], bool]) -> None:
    """Keep the newest files, so that a coordinator cannot fill the disk with proposals."""
    files = [path for path in folder.glob("*.json") if may_go(path)]
    files.sort(key=lambda path: path.stat().st_mtime_ns)
    for path in files[:-_KEPT]:
        path.unlink()


def _differences(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """The names of terms that differ, those in tables with the table's name."""
    found = []
    for name in sorted({*one, *other}):
        here, there = one.get(name), other.get(name)
        if isinstance(here, dict) and isinstance(there, dict):
            found += [f"{name}.{inner}" for inner in _differences(here, there)]
        elif canonical(here) != canonical(there):
            found.append(name)
    return found
