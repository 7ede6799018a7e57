"""Every reply leaves a client through gates, in one order, and each keeps to the form it states."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from federations import Federation, climbing, protected
from ramet.engine.check import form_fault
from ramet.engine.messages import request
from ramet.engine.site.answered import Answered
from ramet.engine.site.audit import AuditLog
from ramet.engine.site.client import Client
from ramet.engine.site.gates import Inside, R, SameForm, passed
from ramet.engine.site.request import NotSharedError
from ramet.engine.site.run_answers import RunAnswers
from ramet.experiment import Experiment, checked_settings
from ramet.experiment.client_side import client_of
from ramet.payload import Arrays, Payload
from ramet.policy import Numbers, Policy


def simulated_client(folder: Path, method: str = "fedavg", **settings: Any) -> Client:
    """A client of a simulation."""
    given: Any = {"method": method, "setting": "tiny", "rounds": 3, "data": Path(), "options": {}}
    experiment = Experiment(checked_settings(**{**given, **settings}))
    return client_of(experiment, experiment.clients[0], folder / ("0" * 32))


def order(client: Client) -> str:
    """The gates in the order in which a reply passes them; the state is saved at the bar."""
    inner, outer = client.protection.inner(client.method), client.protection.outer()
    named = [" ".join(gate.name for gate in gates) for gates in (inner, outer)]
    return " | ".join(named)


LINKS = {"setting": "planted", "network": "hops", "dp": "unit=link,epsilon=4,delta=1e-5"}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, "Declared | Counted Measured Permitted"),
        (
            {"release": "8-bit"},
            "Declared EightBit | Counted Measured Permitted",
        ),
        (
            {"secure": True},
            "Declared Summed Questioned | Masked Once Agreed Counted Permitted",
        ),
        (
            {"dp": "unit=graph,epsilon=4,delta=1e-5"},
            "Declared | Once Counted Measured Permitted",
        ),
        (
            {"dp": "unit=site,epsilon=4,delta=1e-5", "secure": True},
            "Declared Undisclosed NoisedSum Questioned | Masked Once Agreed Counted Permitted",
        ),
        (LINKS, "Declared | Unlinked Once Counted Measured Permitted"),
    ],
)
def test_the_order_of_the_gates(settings: dict[str, Any], expected: str, tmp_path: Path) -> None:
    assert order(simulated_client(tmp_path, **settings)) == expected


def test_a_deployed_site_answers_once_and_keeps_the_digest_of_its_state(tmp_path: Path) -> None:
    answers = RunAnswers(tmp_path / "answers")
    log = AuditLog(tmp_path / "audit.jsonl", "run", "a")
    client = protected(simulated_client(tmp_path), run_answers=answers, deployed=True, audit=log)
    assert order(client) == "Declared Undisclosed | Once Counted Measured Permitted Audited"
    assert not client.answer(request(1, False, {})).notes


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"method": "scaffold"},
        {"method": "fedproto", "setting": "planted"},
        {"release": "8-bit"},
        {"merge": "fixed-point"},
        {"dp": "unit=graph,epsilon=4,delta=1e-5"},
        {"dp": "unit=site,epsilon=4,delta=1e-5"},
    ],
)
@pytest.mark.parametrize("numbers", [Numbers(), Numbers(loss=False, scores=0.5, work=False)])
def test_the_form_of_a_reply_is_known_before(
    settings: dict[str, Any], numbers: Numbers, tmp_path: Path
) -> None:
    """Without any data: from the names, shapes and types of what the client finds."""
    client = simulated_client(tmp_path, **settings)
    client = protected(client, policy=Policy(numbers=numbers))
    found = list[tuple[Payload, Arrays]]()

    @dataclass(frozen=True)
    class Seen(SameForm):
        def __call__(self, request: R, inside: Inside[R]) -> Payload:
            found.append((inside(request), request.sent))
            return found[-1][0]

    client.__dict__["_inner"] = (Seen(), *client._inner)
    first = client.answer(request(1, True, {}))
    plain = {} if client.method.summation or client.method.release else first.arrays
    for reply in (first, client.answer(request(2, False, plain, last=1))):
        reply_found, sent = found.pop(0)
        form = client.form(reply_found, sent)
        assert form_fault(reply, form) is None
        assert reply.arrays.keys() == form.arrays.keys()
        assert reply.extras.keys() == form.extras.keys()
        assert reply.numbers.keys() == form.numbers.keys()


@dataclass(frozen=True)
class Talkative(SameForm):
    """A gate that lets out more than it says."""

    def __call__(self, request: R, inside: Inside[R]) -> Payload:
        reply = inside(request)
        return replace(reply, arrays={**reply.arrays, "secret": np.ones(2)})


def test_a_gate_that_adds_to_its_form_is_refused(tmp_path: Path) -> None:
    asked = Federation(climbing(), tmp_path).client("a").request(request(1, True, {}))
    with pytest.raises(NotSharedError, match=r"refuses to send 'secret' .*Talkative\.form does"):
        passed((Talkative(),), asked, lambda _: Payload())


def test_a_refused_message_is_counted_and_nothing_else_happens(tmp_path: Path) -> None:
    """The outermost gates come first, for a message: the record is written, and no state."""
    federation, record = Federation(climbing(), tmp_path), Answered(tmp_path / "all.json", "one")
    client = protected(federation.client("a"), answered=record, policy=Policy(runs=1))
    with pytest.raises(NotSharedError, match="refuses to accept 'other'"):
        client.answer(request(1, True, {"other": np.ones(1)}))
    assert (tmp_path / "all.json").exists()
    assert not client.snapshots.steps()
    assert not (tmp_path / "a" / "audit.jsonl").exists()
