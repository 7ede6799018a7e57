"""Five sites that verify secure rounds: every process killed once, and two drop-outs."""

from __future__ import annotations

import shutil
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from test_secure_consortium import FIVE, kill_site, wait_until
from test_verified_consortium import know_each_other, local_run

from consortia import DeployRun, Members, consortium, kill
from federations import merged_sha256
from ramet.engine.chain_audit import ChainFinding, compare
from ramet.experiment import RunFolder
from ramet.experiment.chain_parts import read_charter
from ramet.flower.chain_copies import chain_copies
from victims import VICTIMS, find_victim

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.thorough,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]


def states(members: Members, run: DeployRun) -> dict[str, str]:
    """What an audit of all copies says, with the coordinator's."""
    folders = [run.out, *(site.folder / "state" for site in members.sites)]
    findings: list[ChainFinding] = [*compare(chain_copies(folders, RunFolder(run.out).run_name))]
    return {finding.holder: finding.state for finding in findings}


def committed(run: DeployRun, count: int) -> Callable[[], bool]:
    return lambda: len(run.rounds()) >= count


def test_every_process_is_killed_once(tmp_path: Path) -> None:
    rounds, names = len(VICTIMS) + 1, [*FIVE]
    with consortium(
        tmp_path, FIVE, method="fedstar", rounds=rounds, quorum=5, secure=True, verified=True
    ) as members:
        know_each_other(members, 'secure = "required"\n')
        run = DeployRun(members, tmp_path / "run")
        for number, kind in enumerate(VICTIMS):
            while len(run.rounds()) < number:
                run.restart_if_failed()
                time.sleep(0.05)
            victim = find_victim(run, VICTIMS[kind], names[number % len(names)])
            assert victim is not None, f"the run was over before its {kind} could be killed"
            kill(victim)
            members.start()
        result = run.result()
        expected = local_run(members, read_charter(run.out).seed, tmp_path / "local", rounds)
        assert result["sha256"] == merged_sha256(expected.folder)
        assert [record["round"] for record in run.rounds()] == list(range(1, rounds + 1))
        assert all(record["trained"].keys() == FIVE.keys() for record in run.rounds())
        found = states(members, run)
        assert set(found.values()) == {"whole"}
        assert len(found) == len(FIVE) + 1


def test_two_of_five_sites_drop_out_one_after_the_other(tmp_path: Path) -> None:
    """Secure charters need more than two thirds: four of five. Whoever returns goes on."""
    with consortium(
        tmp_path,
        FIVE,
        method="fedstar",
        rounds=5,
        quorum=4,
        deadline=60.0,
        secure=True,
        verified=True,
    ) as members:
        know_each_other(members, 'secure = "required"\nmembers = 4\n')
        run = DeployRun(members, tmp_path / "run")
        wait_until(committed(run, 1), run)
        kill_site(members, "north")
        wait_until(committed(run, 2), run)
        members.site("north").start(members.output.append)
        wait_until(committed(run, 3), run)
        kill_site(members, "south")
        assert run.result()["rounds"] == 5
        trained = [set(record["trained"]) for record in run.rounds()]
        assert any("north" not in sites for sites in trained[1:3])
        assert "north" in trained[-1]
        assert "south" not in trained[-1]
        found = states(members, run)
        assert found["south"] == "behind"
        assert {found[name] for name in ("the coordinator", "east", "west", "centre")} == {"whole"}
        assert "broken" not in found.values()
