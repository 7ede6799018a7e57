"""Sums of columns under masks, before a run whose sums are secure: at the server and at a site.

It is the protocol of secure sums (:mod:`ramet.engine.server.secure_steps`) under a name of its own,
with two sums: of counts and totals, and of squared deviations from the means that follow. All sites
of the run are in both. A server that is killed begins again under another name.
"""

from __future__ import annotations

import hashlib
import json
import secrets
import shutil
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np

from ramet.data.own.preparation import Pooled, SiteSums
from ramet.data.own.whole_sums import Wholes, counted, pooled_sums, spreads, totals
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
from ramet.flower.wire import GridWire
from ramet.payload import Payload
from ramet.rules.fixed_point import RingTotal
from ramet.run_options import Engine

_TOTALS, _SPREADS = 1, 2
"""The rounds of the two sums."""
_KEPT = 20
"""Of how many such sums a site keeps its keys."""
_LARGEST = float(np.finfo(np.float32).max)


def summed_columns(wire: GridWire, experiment: Experiment) -> Pooled:
    """Ask all sites for the sums of their columns under masks, and unmask them."""
    clients = experiment.clients
    wire.begin_columns(secrets.token_hex(16))
    sums = _Sums(wire, clients, agreed_digest(experiment), experiment.settings.engine)
    columns = sorted({c for site in wire.sites.sums.values() for c in site.numbers})
    first = sums.next(_TOTALS, dict.fromkeys(columns, 0.0))
    means = {column: own.mean for column, own in counted(first, len(clients)).items()}
    second = sums.next(_SPREADS, means) if means else {}
    return pooled_sums(first, second, len(clients))


@dataclass
class _Sums:
    """The server's side of both sums."""

    wire: GridWire
    clients: tuple[str, ...]
    config: str
    engine: Engine
    state: SecureState = field(default_factory=SecureState)

    def next(self, number: int, columns: Mapping[str, float]) -> Wholes:
        ask = self._ask(number)
        self.state = with_keys(self.state, self.clients, number, _SPREADS + 1, ask)
        if len(self.state.members) < len(self.clients):
            raise RametError("not all sites have sent keys for the sums of their columns.")
        arrays = {column: np.array(mean) for column, mean in columns.items()}
        numbers = {"round": number, "train": 1, "last": 0}
        message = Payload({}, numbers, self.state.notes(), arrays)
        form = totals(SiteSums(), columns) if number == _TOTALS else spreads(SiteSums(), columns)
        shapes = {name: array.shape for name, array in form.items()}

        def fault(client: str, reply: Payload) -> str | None:  # noqa: ARG001
            given = {n: a.shape for n, a in reply.arrays.items() if a.dtype == np.uint64}
            return None if given == shapes else "sent no sums of these columns"

        requests = dict.fromkeys(self.clients, message)
        replies, total = ask(COLUMNS, requests, fault, len(self.clients)), RingTotal()
        for reply in replies.values():
            total.add(reply.arrays)
        context = context_digest(message, self.config)
        pending = PendingSum(number, self.state.members, total.arrays, context, {})
        sums, self.state = sum_of(self.state, pending, True, ask)
        return dict(sums)

    def _ask(self, number: int) -> Ask:
        otherwise = "the run does not start"
        return asker(self.wire, RETRY_DELAYS[self.engine], number, Counting(number), otherwise)


def columns_answer(secure: SecureSite, message: Payload, sums: SiteSums, version: str) -> Payload:
    """What a site answers to a message about these sums; each of the two leaves once.

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


def _terms(message: Payload, sums: SiteSums) -> Wholes:
    means = {column: float(array) for column, array in message.extras.items() if array.shape == ()}
    if len(means) < len(message.extras) or not all(abs(m) <= _LARGEST for m in means.values()):
        raise SecureError("the message has means of columns that are not possible.")
    first = int(message.numbers["round"]) == _TOTALS
    return totals(sums, means) if first else spreads(sums, means)
