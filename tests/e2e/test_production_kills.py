"""kill -9 of every process of a consortium: the same numbers as in a run without kills.

In CI four kinds of processes are killed in one run. `make e2e` has a run for each kind. `make
faults` has twenty runs, and one in which the SuperLink is killed ten times.
"""

from __future__ import annotations

import os
import random
import shlex
import shutil
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from safetensors.numpy import load_file

import ramet
from consortia import DeployRun, Members, consortium, kill
from federations import merged_sha256
from ramet.engine.site.audit import audit_entries
from ramet.engine.site.run_answers import ANSWERS
from ramet.experiment import RunFolder
from victims import VICTIMS, find_victim

pytestmark = [
    pytest.mark.e2e,
    pytest.mark.skipif(shutil.which("nginx") is None, reason="nginx is not installed"),
]
FULL = "RAMET_FAULTS" in os.environ
SITES = {"north": ("mass",), "south": ("mass", "charge"), "east": ("spin", "mass", "charge")}
ROUNDS = 10
RUN_SECONDS = 75.0
"""How long ten rounds take on two cores; the moments of kills are drawn from this interval."""


@dataclass(frozen=True)
class Baseline:
    members: Members
    local: ramet.Result


@pytest.fixture(scope="module")
def baseline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Baseline]:
    """A consortium whose quorum needs all three sites, so that every round waits for a dead one."""
    root = tmp_path_factory.mktemp("kills")
    with consortium(root, SITES, method="fedstar", rounds=ROUNDS, seed=5, quorum=3) as members:
        files = shlex.join(str(site.settings.data) for site in members.sites)
        local = ramet.run("fedstar", "own", rounds=ROUNDS, seed=5, out=root / "local", sites=files)
        yield Baseline(members, local)


@pytest.mark.thorough
def test_four_kills_in_one_run(baseline: Baseline, tmp_path: Path) -> None:
    """The command is restarted if the run fails."""
    run = DeployRun(baseline.members, tmp_path / "r")
    for number, name in enumerate(("superlink", "server app", "supernode", "client app"), start=1):
        while len(run.rounds()) < number:
            run.restart_if_failed()
            time.sleep(0.05)
        victim = find_victim(run, VICTIMS[name], [*SITES][number % len(SITES)])
        assert victim is not None, f"the run was over before its {name} could be killed"
        kill(victim)
        baseline.members.start()
    result = run.result()
    _check(run, result, baseline.local)


@pytest.mark.thorough
@pytest.mark.parametrize("number", range(20 if FULL else len(VICTIMS)))
def test_any_process_may_be_killed_at_any_moment(
    number: int,
    baseline: Baseline,
    tmp_path: Path,
    record_property: Callable[[str, object], None],
) -> None:
    draw = random.Random(number)
    name = [*VICTIMS][number % len(VICTIMS)]
    site, moment = draw.choice([*SITES]), draw.uniform(0.0, RUN_SECONDS)
    members = baseline.members
    members.start()
    run = DeployRun(members, tmp_path / "r")
    started = time.monotonic()
    while (seconds := time.monotonic() - started) < moment and run.process.poll() is None:
        time.sleep(0.05)
    victim = find_victim(run, VICTIMS[name], site)
    at_round = len(run.rounds())
    assert victim is not None, f"the run was over before its {name} could be killed"
    kill(victim)
    members.start()
    result = run.result()
    record_property("killed", f"{name} ({site}), {seconds:.1f} s, round {at_round + 1}")
    record_property("attempts", run.attempts)
    _check(run, result, baseline.local)


def _check(run: DeployRun, result: dict[str, Any], expected: ramet.Result) -> None:
    """Same result, each round once and with all sites, and no reply sent twice with changes."""
    records, summary = run.rounds(), expected.summary.to_json()
    assert result["sha256"] == merged_sha256(expected.folder)
    for fact in ("scores", "model"):
        assert result[fact] == summary[fact]
    if not any(record["retries"] for record in records):  # retries send more
        assert result["traffic"] == summary["traffic"]
    expected_states = _states(expected.folder / "clients", RunFolder(expected.folder).run_name)
    assert [record["round"] for record in records] == list(range(1, ROUNDS + 1))
    assert all(record["trained"].keys() == SITES.keys() for record in records)
    name = RunFolder(run.out).run_name
    for site in run.members.sites:
        replies, _ = audit_entries(site.folder / "state")
        sent: dict[int, set[tuple[str, ...]]] = {}
        for reply in replies:
            if reply.run == name:
                sent.setdefault(reply.round, set()).add(tuple(t.sha256 for t in reply.tensors))
        assert _states(site.folder / "state" / "clients", name).items() <= expected_states.items()
        assert sent.keys() >= set(range(1, ROUNDS + 1))
        assert all(len(variants) == 1 for variants in sent.values())


def _states(clients: Path, run: str) -> dict[str, bytes]:
    """All private parameters, optimiser moments and final models on disk."""
    states = {
        f"{path.relative_to(clients / run)}: {name}": array.tobytes()
        for path in (clients / run).rglob("*.safetensors")
        if path.parent.name != ANSWERS
        for name, array in load_file(path).items()
    }
    assert states
    return states


@pytest.mark.thorough
def test_the_superlink_may_be_killed_ten_times(baseline: Baseline, tmp_path: Path) -> None:
    """No reply is lost, and none is merged twice."""
    members, draw = baseline.members, random.Random(11)
    members.start()
    run = DeployRun(members, tmp_path / "r")
    while not run.rounds():
        time.sleep(0.1)
    killed = 0
    while killed < 10:
        time.sleep(draw.uniform(3.0, 7.0))
        run.restart_if_failed()
        victim = members.service("coordinator", "superlink").process()
        assert victim is not None
        kill(victim)
        killed += 1
        members.start()
    result = run.result()
    _check(run, result, baseline.local)
