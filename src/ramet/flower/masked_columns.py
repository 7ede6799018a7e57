"""Sums of columns under masks, before a run whose sums are secure: at the server and at a site.

It is the protocol of secure sums (:mod:`ramet.engine.server.secure_steps`) under a name of its own,
with one sum, of all sites of the run. A server that is killed begins again under another name.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from ramet.data.own.preparation import Pooled, SiteSums
from ramet.data.own.whole_sums import pooled_sums, whole_sums
from ramet.engine.secure_messages import (
    BATCH,
    QUESTIONS,
    STEP,
    SUM,
    SecureError,
    context_digest,
)
from ramet.engine.server.asking import Ask, asker
from ramet.engine.server.secure_steps import PendingSum, SecureState, sum_of, with_keys
from ramet.engine.server.tally import Counting
from ramet.engine.site.members import COLUMNS
from ramet.engine.site.secure_site import SecureSite
from ramet.errors import RametError
from ramet.experiment import Experiment
from ramet.experiment.digests import agreed_digest
from ramet.experiment.server_side import RETRY_DELAYS
from ramet.flower.records import COLUMNS as NOTE
from ramet.flower.wire import GridWire
from ramet.payload import Arrays, Payload
from ramet.rules.fixed_point import RingTotal

_ROUND = 1
"""The only round of these sums."""
_KEPT = 20
"""Of how many such sums a site keeps its keys."""


def summed_columns(wire: GridWire, experiment: Experiment) -> Pooled:
    """Ask all sites for the sums of their columns under masks, and unmask them."""
    columns = sorted({c for site in wire.sites.sums.values() for c in site.numbers})
    wire.begin_columns(secrets.token_hex(16), columns)
    delays = RETRY_DELAYS[experiment.settings.engine]
    ask = asker(wire, delays, _ROUND, Counting(_ROUND), "the run does not start")
    clients, config = experiment.clients, agreed_digest(experiment)
    return pooled_sums(unmasked_sum(clients, columns, config, ask), len(clients))


def unmasked_sum(clients: tuple[str, ...], columns: Sequence[str], config: str, ask: Ask) -> Arrays:
    """The sum of what all sites add; ``config`` is the digest of their settings."""
    state = with_keys(SecureState(), clients, _ROUND, _ROUND + 1, ask)
    if len(state.members) < len(clients):
        raise RametError("not all sites have sent keys for the sums of their columns.")
    message = Payload({}, {"round": _ROUND, "train": 1, "last": 0}, state.notes())
    form = {name: array.shape for name, array in whole_sums(SiteSums(), columns).items()}

    def fault(client: str, reply: Payload) -> str | None:  # noqa: ARG001
        given = {n: a.shape for n, a in reply.arrays.items() if a.dtype == np.uint64}
        return None if given == form else "sent no sums of these columns"

    replies, total = ask(COLUMNS, dict.fromkeys(clients, message), fault, len(clients)), RingTotal()
    for reply in replies.values():
        total.add(reply.arrays)
    context = context_digest(message, config)
    pending = PendingSum(_ROUND, state.members, total.arrays, context, {})
    return sum_of(state, pending, True, ask)[0]


def columns_answer(secure: SecureSite, message: Payload, sums: SiteSums, version: str) -> Payload:
    """What a site answers to a message about this sum, to which it adds once.

    ``version`` is that of its data. They are in sums over one set of sites, as long as the site's
    own list of members is the same: two sums over different sites would tell those of one.
    """
    if STEP in message.notes:
        _forget_old(secure.folder.parents[2])
        return secure.answer(message)
    known = sorted(secure.members.peers.fingerprints.items())
    question = hashlib.sha256(json.dumps([version, known]).encode()).hexdigest()

    def answer() -> tuple[Payload, Mapping[str, str]]:
        secure.check_new(message)
        asked = Payload(_terms(message, sums), notes={QUESTIONS: json.dumps({COLUMNS: question})})
        masked = secure.masked(message, asked)
        return replace(masked, notes={}), {n: masked.notes[n] for n in (BATCH, QUESTIONS)}

    return secure.answers.once(message, answer, SUM)


def _forget_old(folder: Path) -> None:
    """Keep the keys of the newest sums of columns; each has a folder of its own."""
    names = sorted(folder.glob("*"), key=lambda path: path.stat().st_mtime_ns)
    for path in names[:-_KEPT]:
        shutil.rmtree(path, ignore_errors=True)


def _terms(message: Payload, sums: SiteSums) -> Arrays:
    """What the site adds; all sites must be asked for the same columns, or masks do not cancel."""
    try:
        columns = [str(name) for name in json.loads(message.notes[NOTE])]
    except (ValueError, TypeError) as error:
        raise SecureError("the message names no columns.") from error
    return whole_sums(sums, columns)
