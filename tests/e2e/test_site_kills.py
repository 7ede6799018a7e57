"""kill -9 of a site's programs: the round continues if the other sites reach the quorum."""

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
RecordProperty = Callable[[str, object], None]


@pytest.fixture(scope="module")
def members(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Members]:
    root, features = tmp_path_factory.mktemp("sites"), dict.fromkeys(SITES, ("mass",))
    with consortium(root, features, method="fedstar", rounds=ROUNDS, quorum=QUORUM) as found:
        found.allow(rounds=ROUNDS + 1)
        yield found


@pytest.mark.parametrize("number", range(20 if FULL else 1))
def test_a_supernode_is_killed_during_a_round(
    number: int, members: Members, tmp_path: Path, record_property: RecordProperty
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
    assert run.process.poll() is None, "the run ended before the SuperNode was killed"
    kill(victim)
    assert run.process.wait(600) == 0, "the run did not complete"
    assert run.attempts == 1
    failed = {r["round"]: r["failed"] for r in run.rounds() if r["failed"]}
    record_property("killed", f"{site}, {moment:.1f} s after round 1; missing in {sorted(failed)}")
    assert [record["round"] for record in run.rounds()] == list(range(1, ROUNDS + 1))
    assert all(missing.keys() == {site} for missing in failed.values())
    assert failed, "the missing site was not reported"
    for record in run.rounds():
        assert len(record["trained"]) == len(SITES) - (record["round"] in failed)


def test_a_client_app_is_killed(
    members: Members, tmp_path: Path, record_property: RecordProperty
) -> None:
    """The round ends with its site or reports it as missing; the last round has all sites."""
    members.change_settings(rounds=ROUNDS + 1)
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
