"""Runs that their sites verify: the same numbers, and no step that does not follow."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ramet
from ramet.engine.chain import CHAIN, FILE, TOTAL, ChainError, Link, links_text, read_links
from ramet.engine.server.tally import QuorumError
from ramet.engine.site.site_chain import FOLDER
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.payload import Payload, digest, under
from ramet.rules.fixed_point import prefixed
from ramet.secure.tags import PRIME
from verified_runs import Lie, created, executed

CASES: list[tuple[str, dict[str, Any]]] = [
    ("fedstar", {}),
    ("fedavg", {"secure": True}),
    ("scaffold", {"secure": True}),
    ("fedadam", {"merge": "fixed-point,ring=32"}),
    ("fedavg", {"activation": "random-clients,count=2"}),
    ("fedavg", {"activation": "explore,keep_own=true"}),
    ("fedavg", {"dp": "unit=site,epsilon=8,delta=1e-5"}),
    ("fedavg", {"patience": 1}),
    ("fedsage+", {"setting": "planted", "nodes": 300, "links": 600}),
    ("local", {}),
]


@pytest.mark.parametrize(("method", "options"), CASES)
def test_the_numbers_are_the_same(method: str, options: dict[str, Any], tmp_path: Path) -> None:
    chosen = {"setting": "tiny", "rounds": 3, **options}
    plain = ramet.run(method, out=tmp_path / "plain", **chosen)
    verified = ramet.run(method, out=tmp_path / "verified", verified=True, **chosen)
    assert verified.summary.sha256 == plain.summary.sha256
    chain = read_links(tmp_path / "verified" / "server" / FILE)
    assert len(chain) >= 1
    opened = RunFolder.open(tmp_path / "verified")
    for client in opened.experiment().clients:
        own = read_links(opened.clients / client / FOLDER / FILE)
        assert own == chain  # also of a client that was not asked in each round


def test_a_method_that_compares_replies_is_refused() -> None:
    with pytest.raises(RametError, match="no site can repeat it"):
        ramet.run("gcfl", "tiny", rounds=1, verified=True)


def refused(folder: RunFolder, lie: Lie, **how: Any) -> str:
    """Why the sites do not answer."""
    with pytest.raises(QuorumError) as error:
        executed(folder, lie=lie, **how)
    return str(error.value)


def in_round(number: int, change: Lie) -> Lie:
    def lie(client: str, message: Payload) -> Payload:
        is_due = message.numbers["round"] == number and "secure" not in message.notes
        return change(client, message) if is_due else message

    return lie


def prepared_model(_: str, message: Payload) -> Payload:
    return replace(message, arrays={"layers.0.first.weight": np.ones((4, 4), np.float32)})


def prepared_sum(_: str, message: Payload) -> Payload:
    """A sum of the coordinator's choice, with a link that fits it; the model follows from it."""
    total = {name: array + 1 for name, array in under(TOTAL, message.extras).items()}
    links = [Link.parse(text) for text in json.loads(message.notes[CHAIN])["links"]]
    links[-1] = replace(links[-1], total=digest(total))
    others = {n: a for n, a in message.extras.items() if not n.startswith(TOTAL)}
    notes = {**message.notes, CHAIN: links_text(links)}
    return replace(message, notes=notes, extras={**others, **prefixed(TOTAL, total)})


def as_a_step(client: str, message: Payload) -> Payload:
    """A prepared model in a message that says it is a step between two exchanges."""
    prepared = prepared_model(client, message)
    return replace(prepared, notes={**message.notes, "secure": ""})


def one_weight_in_a_row(_: str, message: Payload) -> Payload:
    """The weight of an array as a row of numbers, which adds nothing to the product of the sum."""
    total = {
        name: np.append(array.reshape(-1), np.zeros(1, array.dtype))
        if "weight/" in name and not array.ndim
        else array
        for name, array in under(TOTAL, message.extras).items()
    }
    if all(array.ndim for array in under(TOTAL, message.extras).values()):  # integers of a ring
        total = {name: array.reshape(1, *array.shape) for name, array in total.items()}
    links = [Link.parse(text) for text in json.loads(message.notes[CHAIN])["links"]]
    links[-1] = replace(links[-1], total=digest(total))
    others = {n: a for n, a in message.extras.items() if not n.startswith(TOTAL)}
    notes = {**message.notes, CHAIN: links_text(links)}
    return replace(message, notes=notes, extras={**others, **prefixed(TOTAL, total)})


def with_number(name: str, value: int) -> Lie:
    return lambda _, message: replace(message, numbers={**message.numbers, name: value})


def with_note(name: str, value: str) -> Lie:
    return lambda _, message: replace(message, notes={**message.notes, name: value})


def without_chain(_: str, message: Payload) -> Payload:
    notes = {name: note for name, note in message.notes.items() if name != CHAIN}
    extras = {n: a for n, a in message.extras.items() if not n.startswith("chain/")}
    return replace(message, notes=notes, extras=extras)


def in_last_link(**changes: Any) -> Lie:
    def lie(_: str, message: Payload) -> Payload:
        links = [Link.parse(text) for text in json.loads(message.notes[CHAIN])["links"]]
        changed = {k: v(links[-1]) if callable(v) else v for k, v in changes.items()}
        links[-1] = replace(links[-1], **changed)
        return replace(message, notes={**message.notes, CHAIN: links_text(links)})

    return lie


def without_one(link: Link) -> dict[str, Any]:
    return dict([*link.answers.items()][1:])


def without_tags(link: Link) -> dict[str, Any]:
    return {site: replace(answer, tag="") for site, answer in link.answers.items()}


def other_tag(link: Link) -> dict[str, Any]:
    (site, first), *others = link.answers.items()
    tag = f"{(int(first.tag, 16) + 1) % PRIME:032x}"
    return {site: replace(first, tag=tag), **dict(others)}


@pytest.mark.parametrize("secure", [False, True], ids=["in the clear", "secure sums"])
@pytest.mark.parametrize(
    ("lie", "reason"),
    [
        (prepared_model, "do not follow from the sums"),
        (prepared_sum, "is not the sum of the replies|is not exact"),
        (as_a_step, "do not follow from the sums"),
        (one_weight_in_a_row, "is not what its link says"),
        (with_number("last", 0), "last reply was in round 0"),
        (with_number("round", 4), "comes next"),
        (with_note("spared", '["layers.0.first.weight"]'), "which this run never does"),
        (with_note("stage", "other"), "comes next"),
        (without_chain, "has no links"),
        (in_last_link(answers=without_one), "below|is not the sum"),
        (in_last_link(answers=other_tag), "has not signed"),
        (in_last_link(answers=without_tags), "add nothing to its sum"),
        (in_last_link(exchange="closing"), "add nothing to its sum"),
        (in_last_link(round=7), "is of round 7"),
        (in_last_link(state="0" * 64), "has not signed"),
        (in_last_link(before="0" * 64), "does not follow link"),
        (in_last_link(index=5), "does not follow link"),
        (in_last_link(total="0" * 64), "is not what its link says"),
    ],
)
def test_sites_do_not_answer_a_lie(lie: Lie, reason: str, secure: bool, tmp_path: Path) -> None:
    folder = created(tmp_path / "run", secure=secure)
    if secure:  # there it is a step that does not exist
        reason = reason.replace("do not follow from the sums", "(do not follow|does not know)")
    said = refused(folder, in_round(3, lie))
    assert len(said.split(";")) == 3
    assert re.search(reason, said), said


def test_no_model_is_chosen_in_round_1(tmp_path: Path) -> None:
    """It follows from the seed, to which all sites have contributed."""
    said = refused(created(tmp_path / "run"), in_round(1, prepared_model))
    assert said.count("do not follow from the sums") == 3


def test_no_message_goes_back_in_the_chain(tmp_path: Path) -> None:
    folder = created(tmp_path / "run")
    wire = executed(folder)
    (third,) = [m for c, m in wire.sent if c == "rings" and m.numbers["round"] == 3]
    with pytest.raises(ChainError, match="goes back"):
        [*wire.inner.exchange([("rings", third)])]
