"""Charters: what three sites sign, step by step, and what they do not."""

from __future__ import annotations

import base64
import json
import random
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from command_line import ramet
from joined_sites import joined_site
from ramet.engine.secure_messages import SecureError
from ramet.experiment.chain_parts import charter_quorum, charter_terms
from ramet.experiment.client_side import client_of
from ramet.flower.site_charters import (
    BEGIN,
    CONTENT,
    PROPOSE,
    SEALED,
    SHARE,
    SIGN,
    SIGNATURE,
    STEP,
    Due,
    Proposal,
    SiteCharters,
)
from ramet.flower.site_charters import FOLDER as CHARTERS
from ramet.flower.verified_site import verified
from ramet.payload import Payload
from ramet.policy import NO_RULES, Policy, PolicyError
from ramet.secure.charter import Charter, CharterError, Member, SignedCharter
from ramet.secure.identity import Identity, is_signed, simulated_peers
from verified_runs import created

SITES = ("north", "south", "west")
TERMS: dict[str, Any] = {"settings": {"method": "fedavg", "rounds": 2}, "version": "0"}
DUE = Due(TERMS, 3, SITES)
BY_HAND = Policy(charters="by hand")


def identity(site: str) -> Identity:
    return Identity.simulated(0, site)


@dataclass(frozen=True)
class Sites:
    folder: Path
    policy: Policy = NO_RULES
    due: Due = DUE

    def charters(self, site: str) -> SiteCharters:
        return SiteCharters(self.folder / site, site)

    def answer(self, site: str, step: str, content: str, **notes: str) -> Mapping[str, str]:
        message = Payload(notes={STEP: step, CONTENT: content, **notes})
        peers = simulated_peers(0, tuple(self.due.sites))
        charters = self.charters(site)
        return charters.answer(message, identity(site), peers, self.due, self.policy).notes

    def propose(self, proposal: Proposal) -> Charter:
        members = {
            site: Member(**json.loads(self.answer(site, PROPOSE, proposal.text)[CONTENT]))
            for site in proposal.keys
        }
        return Charter(proposal.terms, proposal.quorum, members, proposal.nonce)

    def sign(self, charter: Charter) -> tuple[SignedCharter, dict[str, Any]]:
        replies = {site: self.answer(site, SIGN, charter.text) for site in charter.sites}
        signatures = {site: reply[SIGNATURE] for site, reply in replies.items()}
        shares = {site: reply[SHARE] for site, reply in replies.items()}
        sealed = {site: json.loads(reply[SEALED]) for site, reply in replies.items()}
        return SignedCharter(charter, signatures, shares), sealed

    def begin(self, signed: SignedCharter, sealed: Mapping[str, Any]) -> None:
        for site in self.due.sites:
            own = {sender: given[site] for sender, given in sealed.items() if site in given}
            self.answer(site, BEGIN, signed.text(), **{SEALED: json.dumps(own)})


def proposal(nonce: str = "a", **changes: Any) -> Proposal:
    keys = {site: identity(site).public for site in SITES}
    return replace(Proposal(TERMS, 3, keys, nonce), **changes)


def test_all_sites_begin_with_the_same_seed_and_key(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    signed, sealed = sites.sign(sites.propose(proposal()))
    sites.begin(signed, sealed)
    run = signed.charter.identity
    members = [sites.charters(site).member(run) for site in SITES]
    assert len({member.key for member in members}) == 1
    assert {sites.charters(site).signed(run).seed for site in SITES} == {signed.seed}


def test_two_runs_have_other_seeds(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    seeds = {sites.sign(sites.propose(proposal(nonce)))[0].seed for nonce in "abc"}
    assert len(seeds) == 3


@pytest.mark.parametrize(
    "respell",
    [
        lambda shares: {**shares, "zz": "1"},
        lambda shares: {**shares, "north": shares["north"].upper()},
        lambda shares: {**shares, "north": " " + shares["north"]},
        lambda shares: {site: share for site, share in shares.items() if site != "north"},
        lambda shares: {**shares, "north": "00" * 32},
    ],
)
def test_shares_have_one_spelling(respell: Callable[..., Any], tmp_path: Path) -> None:
    """Otherwise the coordinator could try spellings until it likes the seed."""
    sites = Sites(tmp_path)
    signed, sealed = sites.sign(sites.propose(proposal()))
    with pytest.raises(CharterError):
        sites.begin(replace(signed, shares=respell(dict(signed.shares))), sealed)


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"terms": {**TERMS, "version": "1"}}, "other terms .*: version"),
        ({"quorum": 1}, "a quorum of 3 only"),
        ({"quorum": True}, "a quorum of 3 only"),
        ({"keys": {"north": identity("north").public}}, "signs with north, south, west only"),
        ({"keys": {site: identity("north").public for site in SITES}}, "does not know the keys"),
    ],
)
def test_what_no_site_signs(changes: dict[str, Any], reason: str, tmp_path: Path) -> None:
    with pytest.raises(CharterError, match=reason):
        Sites(tmp_path).answer("north", PROPOSE, proposal(**changes).text)


def test_a_policy_may_ask_for_more_members(tmp_path: Path) -> None:
    with pytest.raises(PolicyError, match="with 4 sites only"):
        Sites(tmp_path, Policy(members=4)).answer("north", PROPOSE, proposal().text)


def test_a_site_signs_no_other_commitment_and_no_second_charter(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    charter = sites.propose(proposal())
    other = replace(charter.sites["south"], commitment="0" * 64)
    with pytest.raises(CharterError, match="another commitment"):
        sites.answer("south", SIGN, replace(charter, sites={**charter.sites, "south": other}).text)
    sites.sign(charter)
    with pytest.raises(CharterError, match="another charter with this nonce"):
        sites.answer("north", SIGN, replace(charter, sites={**charter.sites, "south": other}).text)


def test_one_consent_signs_one_charter(tmp_path: Path) -> None:
    sites = Sites(tmp_path, BY_HAND)
    for site in SITES:
        with pytest.raises(CharterError, match="waits for its owner"):
            sites.answer(site, PROPOSE, proposal("a").text)
        (waiting,) = sites.charters(site).waiting()
        sites.charters(site).approve(waiting)
    charters = [sites.propose(proposal(nonce)) for nonce in "abc"]
    sites.sign(charters[0])
    sites.sign(charters[0])  # the same again
    for other in charters[1:]:
        with pytest.raises(CharterError, match="waits for its owner"):
            sites.answer("north", SIGN, other.text)


def test_a_charter_that_was_not_signed_does_not_begin(tmp_path: Path) -> None:
    sites = Sites(tmp_path)
    charter = sites.propose(proposal())
    signed, sealed = sites.sign(charter)
    forged = {**signed.signatures, "south": signed.signatures["north"]}
    with pytest.raises(CharterError, match="not signed by south"):
        sites.begin(replace(signed, signatures=forged), sealed)
    swapped = {**sealed, "south": sealed["west"]}
    with pytest.raises(CharterError, match="was altered"):
        sites.begin(signed, swapped)


def test_a_coordinator_with_a_third_of_the_sites_chooses_no_sum(tmp_path: Path) -> None:
    """Of five sites, it and two members would know the third one's term in a sum over three."""
    folder = created(tmp_path / "run", secure=True, clients=5)
    experiment, run = folder.experiment(), folder.run_name
    names = experiment.clients
    due = Due(charter_terms(experiment), charter_quorum(experiment), names)
    assert due.quorum == 4
    sites = Sites(tmp_path / "sites", due=due)
    keys = {site: identity(site).public for site in names}
    signed, sealed = sites.sign(sites.propose(Proposal(due.terms, due.quorum, keys, "a")))
    sites.begin(signed, sealed)
    own = sites.charters(names[0])
    states = tmp_path / "state" / "clients" / signed.charter.identity
    given = client_of(experiment, names[0], folder.clients).protection
    assert given.secure is not None
    assert given.chain is not None
    assert given.chain.member.charter.quorum == 4
    config = {"settings": "", "members": "", "client": names[0], "state": str(tmp_path / "state")}
    shutil.copytree(own.folder, tmp_path / "state" / CHARTERS)
    secure = verified(given, config, experiment, states).secure
    assert secure is not None
    assert len(names[:3]) >= given.secure.members.needed  # without the charter, three are enough
    given.secure.members.check(names[:3], "survivors")
    secure.members.check(names[:4], "survivors")
    with pytest.raises(SecureError, match=r"refuses a sum of 3 survivors; it needs 4"):
        secure.members.check(names[:3], "survivors")
    assert run != signed.charter.identity


def test_nobody_chooses_a_share_of_the_seed_after_others_have_opened_theirs(
    tmp_path: Path,
) -> None:
    sites = Sites(tmp_path)
    signed, sealed = sites.sign(sites.propose(proposal()))
    chosen = {**signed.shares, "south": "00" * 32}
    with pytest.raises(CharterError, match="south has not opened its commitment"):
        sites.begin(replace(signed, shares=chosen), sealed)


def test_proposals_do_not_fill_the_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only what belongs to a run is kept for good; what is about to be signed is the newest."""
    monkeypatch.setattr("ramet.flower.site_charters._KEPT", 3)
    sites, waiting = Sites(tmp_path), Sites(tmp_path / "by hand", BY_HAND)
    begun, sealed = sites.sign(sites.propose(proposal("begun")))
    sites.begin(begun, sealed)
    for number in range(6):
        last = sites.propose(proposal(f"{number}"))
        other = {**TERMS, "settings": {"method": "fedavg", "rounds": number + 2}}
        due = replace(waiting, due=replace(DUE, terms=other))
        with pytest.raises(CharterError, match="waits for its owner"):
            due.answer("north", PROPOSE, proposal(terms=other).text)
    north = sites.charters("north")
    assert len([*(north.folder / "pledges").glob("*.json")]) == 3 + 1
    assert north.member(begun.charter.identity).charter == begun.charter
    assert [p.terms["settings"]["rounds"] for p in waiting.charters("north").waiting()] != []
    assert len(waiting.charters("north").waiting()) == 3
    sites.sign(last)


def test_an_owner_signs_what_was_shown_and_not_what_came_after(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = joined_site(tmp_path, monkeypatch).site.folder
    charters = SiteCharters(folder / "state" / CHARTERS, "north")
    age = {"kind": "number", "marked": True, "mean": 41.5, "scale": 2.0, "categories": []}
    prepared = {**TERMS, "preparation": {"types": {"patient": {"age": age}}}}
    seen, later = proposal(terms=prepared), proposal(terms={**TERMS, "version": "1"})
    charters.folder.mkdir(parents=True)
    (charters.folder / "waiting").mkdir()
    for one in (seen, later):
        (charters.folder / "waiting" / f"{one.agreement}.json").write_text(one.text)
    shown = ramet("charter", "show", str(folder)).stdout
    assert f"waits for a signature: {seen.agreement}" in shown
    assert "patient.age: kind number, marked True, mean 41.5, scale 2.0" in shown
    for digits in ("", seen.agreement[:63], "0" * 64):  # others with the same start can be made
        refused = ramet("charter", "sign", digits, str(folder))
        assert refused.code != 0
        assert len(charters.waiting()) == 2
    assert ramet("charter", "sign", seen.agreement, str(folder)).code == 0
    assert charters.waiting() == [later]
    assert [path.stem for path in (charters.folder / "approved").iterdir()] == [seen.agreement]


def test_an_altered_key_has_signed_nothing() -> None:
    """Whatever the text is: a compressed point, another curve, or no key at all."""
    signed, public = identity("north").sign(b"this"), identity("north").public
    kind, content = public.split()
    draw = random.Random(0)
    for _ in range(3000):
        raw = bytearray(base64.b64decode(content))
        raw[draw.randrange(len(raw))] ^= draw.randrange(1, 256)
        assert not is_signed(b"this", signed, f"{kind} {base64.b64encode(raw).decode()}")
    assert not is_signed(b"this", signed, public.replace("A", "\ud800"))
    assert is_signed(b"this", signed, public)
