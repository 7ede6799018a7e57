"""Copies of a chain: an edit of one is found by the others, and honest runs raise no alarm."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from command_line import ramet
from ramet.engine.chain import Answer, Link
from ramet.engine.chain_audit import Copy, compare
from ramet.experiment import RunFolder
from ramet.payload import Payload
from ramet.studies.trial.wires import StoppedError
from verified_runs import copies, created, executed

Edit = Callable[[random.Random, list[str]], list[str]]


def states(given: list[Copy]) -> dict[str, str]:
    return {finding.holder: finding.state for finding in compare(given)}


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> list[Copy]:
    folder = created(tmp_path_factory.mktemp("honest") / "run", rounds=5)
    executed(folder)
    return copies(folder)


def character(draw: random.Random, lines: list[str]) -> list[str]:
    number = draw.randrange(len(lines))
    line, place = lines[number], draw.randrange(len(lines[number]))
    other = draw.choice([c for c in '0123456789abcdef{}",:' if c != line[place]])
    return [*lines[:number], line[:place] + other + line[place + 1 :], *lines[number + 1 :]]


def deletion(draw: random.Random, lines: list[str]) -> list[str]:
    number = draw.randrange(len(lines))
    return lines[:number] + lines[number + 1 :]


def truncation(draw: random.Random, lines: list[str]) -> list[str]:
    return lines[: draw.randrange(len(lines))]


def swap(draw: random.Random, lines: list[str]) -> list[str]:
    one, other = draw.sample(range(len(lines)), 2)
    changed = list(lines)
    changed[one], changed[other] = changed[other], changed[one]
    return changed


def repetition(draw: random.Random, lines: list[str]) -> list[str]:
    number = draw.randrange(len(lines))
    return lines[: number + 1] + lines[number:]


def rewriting(draw: random.Random, lines: list[str]) -> list[str]:
    """All links from one on are made anew, and fit each other, but for others' signatures."""
    start, links = draw.randrange(len(lines)), [Link.parse(line) for line in lines]
    links[start] = replace(links[start], total=f"{draw.getrandbits(256):064x}")
    for number in range(start + 1, len(links)):
        links[number] = replace(links[number], before=links[number - 1].digest)
    return [link.text for link in links]


def reply(draw: random.Random, lines: list[str]) -> list[str]:
    """A reply is taken out of a link, or another one is put in its place."""
    number, links = draw.randrange(len(lines)), [Link.parse(line) for line in lines]
    answers = dict(links[number].answers)
    site = draw.choice([*answers])
    if draw.random() < 0.5:
        del answers[site]
    else:
        answers[site] = Answer(f"{draw.getrandbits(256):064x}", "", answers[site].signature)
    links[number] = replace(links[number], answers=answers)
    return [link.text for link in links]


EDITS: list[Edit] = [character, deletion, truncation, swap, repetition, rewriting, reply]


def check_edits(honest: list[Copy], count: int) -> None:
    whole = dict.fromkeys((copy.holder for copy in honest), "whole")
    assert states(honest) == whole
    draw = random.Random(0)
    for number in range(count):
        place, edit = draw.randrange(len(honest)), EDITS[number % len(EDITS)]
        copy = honest[place]
        lines = tuple(edit(draw, list(copy.lines)))
        edited = [*honest[:place], replace(copy, lines=lines), *honest[place + 1 :]]
        assert lines != copy.lines
        found = states(edited)
        assert found[copy.holder] != "whole", (number, edit, copy.holder)
        # links that are only missing at the end are those of a site that was away
        is_away = copy.lines[: len(lines)] == lines and len(lines) >= len(copy.lines) - 1
        assert found[copy.holder] == "broken" or is_away


def test_random_edits_are_found(honest: list[Copy]) -> None:
    check_edits(honest, 210)


@pytest.mark.thorough
def test_ten_thousand_random_edits_are_found(honest: list[Copy]) -> None:
    check_edits(honest, 10_000)


def check_honest_runs(root: Path, count: int) -> None:
    """Runs with drop-outs, whose server is stopped once and goes on."""
    draw = random.Random(1)
    for number in range(count):
        folder = created(root / str(number), rounds=3, seed=number)
        stop = draw.randrange(1, 12)
        missing = {(draw.randrange(1, 5), draw.choice(("rings", "trees", "blocks")))}

        def away(client: str, message: Payload, missing: set[tuple[int, str]] = missing) -> bool:
            return (int(message.numbers["round"]), client) in missing

        seen = 0

        def lie(_: str, message: Payload, stop: int = stop) -> Payload:
            nonlocal seen
            seen += 1
            if seen == stop:
                raise StoppedError
            return message

        try:
            executed(folder, away=away, lie=lie)
        except StoppedError:
            executed(RunFolder.open(folder.path), away=away)
        found = states(copies(RunFolder.open(folder.path)))
        assert "broken" not in found.values(), (number, found)


def test_honest_runs_raise_no_alarm(tmp_path: Path) -> None:
    check_honest_runs(tmp_path, 5)


@pytest.mark.thorough
def test_two_hundred_honest_runs_raise_no_alarm(tmp_path: Path) -> None:
    check_honest_runs(tmp_path, 200)


def test_the_command_names_the_broken_copy(tmp_path: Path) -> None:
    folder = created(tmp_path / "run")
    executed(folder)
    shown = ramet("audit", "verify", str(folder.path))
    assert shown.code == 0
    assert "WHOLE" in shown.stdout
    chain = folder.clients / "trees" / "chain" / "chain.jsonl"
    lines = chain.read_text().splitlines()
    chain.write_text("\n".join([lines[0], lines[2]]) + "\n")
    shown = ramet("audit", "verify", str(folder.path))
    assert shown.code == 1
    assert "BROKEN" in shown.stdout
    assert "trees" in shown.stdout
