"""kill -9 of a site's programs, when a quorum of the others is enough: the round goes on."""

from __future__ import annotations

import os
import random
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from consortia import DeployRun, Members, consortium, forks, kill

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
FULL = "RAMET_FAULTS" in os.environ
SITES = ("north", "south", "east", "west", "middle")
ROUNDS, QUORUM = 3, 3
Note = Callable[[str, object], None]


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    root, features = tmp_path_factory.mktemp("sites"), dict.fromkeys(SITES, ("mass",))
    with consortium(root, features, method="fedstar", rounds=ROUNDS, quorum=QUORUM) as found:
        yield found


@pytest.mark.parametrize("number", range(20 if FULL else 1))
def test_a_supernode_dies_in_the_middle_of_a_round(
    number: int, members: Members, tmp_path: Path, record_property: Note
) -> None:
    draw = random.Random(number)
    site, moment = draw.choice(SITES), draw.uniform(0.0, 6.0)  # a round takes six seconds
    members.start()
    run = DeployRun(members, tmp_path / "r")
    while not run.rounds():
        assert run.process.poll() is None
        time.sleep(0.02)
    time.sleep(moment)
    victim = members.service(site, "supernode").process()
    assert victim is not None
    assert run.process.poll() is None, "the run was over before the SuperNode was killed"
    kill(victim)
    assert run.process.wait(600) == 0, "the run did not complete"
    assert run.attempts == 1
    named = {r["round"]: r["failed"] for r in run.rounds() if r["failed"]}
    record_property("killed", f"{site}, {moment:.1f} s after round 1; named in {sorted(named)}")
    assert [record["round"] for record in run.rounds()] == list(range(1, ROUNDS + 1))
    assert all(failed.keys() == {site} for failed in named.values())
    assert named, "nobody said who was missing"
    for record in run.rounds():
        assert len(record["trained"]) == len(SITES) - (record["round"] in named)


def test_a_client_app_dies(members: Members, tmp_path: Path, record_property: Note) -> None:
    """The round ends with or without its site, which is then named; the next one is whole."""
    members.agree(rounds=ROUNDS + 1)
    members.start()
    run = DeployRun(members, tmp_path / "r")
    while not (run.rounds() and (working := forks(members.service("south", "superexec")))):
        assert run.process.poll() is None
        time.sleep(0.01)
    kill(working[0])
    assert run.process.wait(600) == 0
    records = run.rounds()
    record_property("rounds", [(r["seconds"], [*r["failed"]]) for r in records])
    assert len(records) == ROUNDS + 1
    assert all({*r["trained"], *r["failed"]} == {*SITES} for r in records)
    assert all(r["failed"].keys() <= {"south"} for r in records)
    assert not records[-1]["failed"]
