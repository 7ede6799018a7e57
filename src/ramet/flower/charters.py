"""The coordinator's side of a charter: it proposes, collects signatures, and begins the run."""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Callable, Mapping
from logging import INFO
from pathlib import Path

from ramet.disk import write_atomically
from ramet.engine.server.wire import Wire
from ramet.errors import RametError
from ramet.events import log_event
from ramet.experiment import Experiment
from ramet.experiment.chain_parts import charter_quorum, charter_terms
from ramet.flower.site_charters import (
    BEGIN,
    CONTENT,
    PROPOSE,
    SEALED,
    SHARE,
    SIGN,
    SIGNATURE,
    STEP,
    WAITING,
    Proposal,
)
from ramet.payload import Payload
from ramet.secure.charter import Charter, CharterError, Member, SignedCharter

_ENVELOPES = "charter-secrets.json"
"""The file in a run's folder with what sites send each other, which only they can open."""
_PAUSE = 3.0


def sign_charter(
    wire: Wire, experiment: Experiment, keys: Mapping[str, str], patience: float
) -> tuple[SignedCharter, Mapping[str, Mapping[str, str]]]:
    """The charter of a new run, signed by all sites, and what each has sealed for the others."""
    terms, quorum = charter_terms(experiment), charter_quorum(experiment)
    proposal = Proposal(terms, quorum, dict(keys), secrets.token_hex(32))
    log_event(INFO, "charter proposed", sites=[*keys], quorum=quorum)
    ends = time.monotonic() + patience
    pledged = _answered(wire, PROPOSE, lambda _: {CONTENT: proposal.text}, keys, ends)
    members = {site: _member(site, reply, keys[site]) for site, reply in pledged.items()}
    charter = Charter(terms, quorum, members, proposal.nonce)
    replies = _answered(wire, SIGN, lambda _: {CONTENT: charter.text}, keys, ends)
    signed = SignedCharter(
        charter,
        {site: reply.notes.get(SIGNATURE, "") for site, reply in replies.items()},
        {site: reply.notes.get(SHARE, "") for site, reply in replies.items()},
    )
    signed.check()
    log_event(INFO, "charter signed", charter=charter.identity)
    return signed, {site: json.loads(reply.notes[SEALED]) for site, reply in replies.items()}


def save_envelopes(folder: Path, envelopes: Mapping[str, Mapping[str, str]]) -> None:
    write_atomically(folder / _ENVELOPES, json.dumps(envelopes))


def begin(wire: Wire, folder: Path, signed: SignedCharter, patience: float, is_new: bool) -> None:
    """Give all sites the signatures of the others; of a run that goes on, those that are there."""
    envelopes = json.loads((folder / _ENVELOPES).read_text())
    sites = signed.charter.sites

    def notes(site: str) -> dict[str, str]:
        own = {sender: sealed[site] for sender, sealed in envelopes.items() if site in sealed}
        return {CONTENT: signed.text(), SEALED: json.dumps(own)}

    _answered(wire, BEGIN, notes, sites, time.monotonic() + patience, all_needed=is_new)


def _answered(
    wire: Wire,
    step: str,
    notes: Callable[[str], Mapping[str, str]],
    sites: Mapping[str, object],
    ends: float,
    all_needed: bool = True,
) -> dict[str, Payload]:
    """The sites' answers to a step; those that wait for their owners are asked again."""
    answers: dict[str, Payload] = {}
    while True:
        requests = [
            (site, Payload(numbers={"round": 0}, notes={STEP: step, **notes(site)}))
            for site in sites
            if site not in answers
        ]
        reasons: dict[str, str] = {}
        for site, reply in wire.exchange(requests):
            if isinstance(reply, str):
                reasons[site] = reply
            else:
                answers[site] = reply
        only_waiting = all(WAITING in reason for reason in reasons.values())
        if not reasons or not all_needed:
            return answers
        if not only_waiting or time.monotonic() > ends:
            said = "; ".join(f"{site}: {reason}" for site, reason in reasons.items())
            raise RametError(f"the run does not start, because not all sites sign: {said}.")
        time.sleep(_PAUSE)


def _member(site: str, reply: Payload, key: str) -> Member:
    try:
        member = Member(**json.loads(reply.notes[CONTENT]))
    except (KeyError, ValueError, TypeError) as error:
        raise CharterError(f"{site} has committed to nothing ({type(error).__name__}).") from error
    if member.key != key:
        raise CharterError(f"{site} has another key than it was admitted with.")
    return member
