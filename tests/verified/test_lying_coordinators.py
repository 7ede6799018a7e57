"""Coordinators that deviate at random: a site answers what follows from the chain, or nothing."""

from __future__ import annotations

import json
import random
import shutil
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property
from pathlib import Path

import numpy as np
import pytest

from ramet.engine.chain import CHAIN, TOTAL, Answer, Link, links_text, read_links
from ramet.engine.chain import FILE as LINKS
from ramet.engine.secure_messages import STEP
from ramet.engine.site.site_chain import SiteChain
from ramet.errors import RametError
from ramet.experiment import RunFolder
from ramet.experiment.chain_parts import simulated_chain
from ramet.payload import Payload, digest, under
from ramet.rules.fixed_point import prefixed
from ramet.secure.tags import PRIME
from verified_runs import created, executed

Deviation = Callable[[random.Random, Payload], Payload]


def links_of(message: Payload) -> list[Link]:
    return [Link.parse(text) for text in json.loads(message.notes[CHAIN])["links"]]


def with_links(message: Payload, links: list[Link]) -> Payload:
    return replace(message, notes={**message.notes, CHAIN: links_text(links)})


def other_values(draw: random.Random, message: Payload) -> Payload:
    """Another sum, by as little as one bit of one number."""
    arrays = dict(message.extras)
    name = draw.choice([*arrays])
    changed = np.array(arrays[name])
    place = draw.randrange(changed.size)
    as_bits = changed.reshape(-1).view(np.uint8)
    as_bits[place * changed.itemsize] ^= 1 << draw.randrange(8)
    return replace(message, extras={**arrays, name: changed})


def a_model(draw: random.Random, message: Payload) -> Payload:
    """A model, or another array, beside the sum."""
    kind = draw.choice(("arrays", "extras"))
    arrays = {**getattr(message, kind), "layers.0.first.weight": np.zeros((4, 4), np.float32)}
    return replace(message, **{kind: arrays})


def other_sum(draw: random.Random, message: Payload) -> Payload:
    """A sum of its choice, and a link that says so."""
    total = under(TOTAL, message.extras)
    name = draw.choice([*total])
    total[name] = total[name] + 2.0 ** -draw.randrange(16)
    links = links_of(message)
    links[-1] = replace(links[-1], total=digest(total))
    others = {n: a for n, a in message.extras.items() if not n.startswith(TOTAL)}
    return with_links(replace(message, extras={**others, **prefixed(TOTAL, total)}), links)


def other_answers(draw: random.Random, message: Payload) -> Payload:
    """Replies that are left out, put in the place of another's, or made up."""
    links = links_of(message)
    answers = dict(links[-1].answers)
    site, other = draw.sample([*answers], 2)
    way = draw.randrange(4)
    if way == 0:
        del answers[site]
    elif way == 1:
        answers[site], answers[other] = answers[other], answers[site]
    elif way == 2:
        tag = f"{draw.randrange(PRIME):032x}"
        answers[site] = replace(answers[site], tag=tag)
    else:
        answers["stranger"] = Answer(answers[site].reply, answers[site].tag, "00")
    links[-1] = replace(links[-1], answers=answers)
    return with_links(message, links)


def other_link(draw: random.Random, message: Payload) -> Payload:
    """One fact of the last link is another."""
    links = links_of(message)
    own, number, text = links[-1], draw.randrange(10, 20), f"{draw.getrandbits(256):064x}"
    others = [
        replace(own, index=number),
        replace(own, round=number),
        replace(own, exchange="closing"),
        replace(own, before=text),
        replace(own, state=text),
        replace(own, total=text),
    ]
    links[-1] = draw.choice(others)
    return with_links(message, links)


def other_round(draw: random.Random, message: Payload) -> Payload:
    number = draw.choice([n for n in range(9) if n != message.numbers["round"]])
    return replace(message, numbers={**message.numbers, "round": number})


def no_links(draw: random.Random, message: Payload) -> Payload:
    notes = {name: note for name, note in message.notes.items() if name != CHAIN}
    if draw.random() < 0.5:
        notes[CHAIN] = links_text([])
    return replace(message, notes=notes)


def fewer_arrays(draw: random.Random, message: Payload) -> Payload:
    arrays = dict(message.extras)
    del arrays[draw.choice([*arrays])]
    return replace(message, extras=arrays)


def other_words(draw: random.Random, message: Payload) -> Payload:
    """Another number or note that decides what the site does."""
    way = draw.randrange(3)
    if way == 0:
        number = draw.choice([n for n in range(9) if n != message.numbers["last"]])
        return replace(message, numbers={**message.numbers, "last": number})
    note = ("stage", "before") if way == 1 else ("spared", '["layers.0.first.weight"]')
    return replace(message, notes={**message.notes, note[0]: note[1]})


DEVIATIONS: list[Deviation] = [
    other_words,
    other_values,
    a_model,
    other_sum,
    other_answers,
    other_link,
    other_round,
    no_links,
    fewer_arrays,
]


class Site:
    """A site that has followed the chain up to round 2, and is sent the message of round 3."""

    def __init__(self, folder: RunFolder, root: Path) -> None:
        wire = executed(folder)
        own = [m for client, m in wire.sent if client == "rings" and STEP not in m.notes]
        self.messages = {int(message.numbers["round"]): message for message in own}
        self._experiment, self._root = folder.experiment(), root / folder.run_name
        self.chain.followed(self.messages[1])
        self.chain.followed(self.messages[2])

    @cached_property
    def chain(self) -> SiteChain:
        return simulated_chain(self._experiment, "rings", self._root)

    def answers(self, message: Payload, scratch: Path) -> bool:
        """Whether the site goes on; it forgets what it was sent."""
        own = self._root / "rings" / "chain"
        shutil.copytree(own, scratch, dirs_exist_ok=True)
        try:
            replace(self.chain, folder=scratch).followed(message)
        except RametError:
            known, kept = read_links(own / LINKS), read_links(scratch / LINKS)
            assert kept in (known, [*known, *links_of(self.messages[3])[-1:]])
            return False
        finally:
            shutil.rmtree(scratch)
        return True


@pytest.fixture(scope="module", params=[False, True], ids=["in the clear", "secure sums"])
def site(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Site:
    root = tmp_path_factory.mktemp("site")
    return Site(created(root / "run", rounds=3, secure=request.param), root / "states")


def check_deviations(site: Site, folder: Path, count: int) -> None:
    honest = site.messages[3]
    assert site.answers(honest, folder / "honest")
    draw = random.Random(0)
    for number in range(count):
        deviation = DEVIATIONS[number % len(DEVIATIONS)]
        message = deviation(draw, honest)
        assert not site.answers(message, folder / "scratch"), (number, deviation)


def test_random_deviations_get_no_answer(site: Site, tmp_path: Path) -> None:
    check_deviations(site, tmp_path, 140)


@pytest.mark.thorough
def test_ten_thousand_random_deviations_get_no_answer(site: Site, tmp_path: Path) -> None:
    check_deviations(site, tmp_path, 5000)
